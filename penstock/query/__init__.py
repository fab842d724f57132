"""Queries of the keyed state of a running job, by the names under which its program has published it."""

from penstock.query.state_client import QueryAnswer, StateClient, connect

__all__ = ["QueryAnswer", "StateClient", "connect"]
