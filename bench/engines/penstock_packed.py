"""Penstock, whose file source is packed: pyarrow reads the files, and the JVM only passes cells of bytes on."""

from bench.engines import penstock

ENGINE = penstock.variant("penstock_packed", "--packed", workloads=("w1",), by_default=False)
