"""The JobManager: one job, one driver process."""
