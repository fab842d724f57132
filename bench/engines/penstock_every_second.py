"""Penstock with a checkpoint every second, for the price of checkpoints."""

from bench.engines import penstock

ENGINE = penstock.variant(
    "penstock_every_second",
    "--checkpoints",
    "1s",
    workloads=("w1", "w2", "w9"),
    warmup_batches=20,
    by_default=False,
    is_published=False,
)
