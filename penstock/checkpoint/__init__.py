"""Checkpoints: job log, manifests, coordinator, garbage collection and restore."""
