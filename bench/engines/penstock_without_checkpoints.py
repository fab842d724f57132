"""Penstock without checkpoints, for the price of those that others take."""

from bench.engines import penstock

ENGINE = penstock.variant(
    *("penstock_without_checkpoints", "--checkpoints", "none"),
    workloads=("w1", "w2", "w9"),
    warmup_batches=20,
    by_default=False,
    is_published=False,
)
