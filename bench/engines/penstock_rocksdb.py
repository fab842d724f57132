"""Penstock with the RocksDB backend and its default bound of 256 MB for each TaskManager."""

from dataclasses import replace

from bench.engines import penstock

ENGINE = penstock.variant(
    "penstock_rocksdb",
    *("--backend", "rocksdb"),
    workloads=("w5", "w7"),
    venv=replace(
        penstock.VENV, name="penstock_rocksdb", requirements=(*penstock.VENV.requirements, "rocksdict==0.3.29")
    ),
)
