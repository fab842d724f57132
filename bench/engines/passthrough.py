"""Penstock's plan with TaskManagers that return their input: the ceiling of the data path."""

from bench.engines import penstock

ENGINE = penstock.variant("passthrough", "--passthrough", workloads=("w1",))
