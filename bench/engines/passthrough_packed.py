"""A packed source with TaskManagers that return their input: the ceiling of that path."""

from bench.engines import penstock

ENGINE = penstock.variant("passthrough_packed", "--passthrough", "--packed", workloads=("w1",), by_default=False)
