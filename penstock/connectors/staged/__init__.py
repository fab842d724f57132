"""Sinks whose rows wait with the checkpoint and are published in one transaction when it is complete."""
