"""The names of `pyflink.common.serialization`."""

from penstock.model.encoder import Encoder

__all__ = ["Encoder"]
