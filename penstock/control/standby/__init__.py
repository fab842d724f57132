"""Standby drivers: the lease, the stored program, and when a standby takes a job over."""
