"""Another checkout of Penstock, named by `PENSTOCK_BENCH_OTHER`: shows in one run whether a change made it slower."""

import os
from dataclasses import replace
from pathlib import Path

from bench.engines import penstock

PROJECT = Path(os.environ.get("PENSTOCK_BENCH_OTHER", penstock.VENV.project or "."))

ENGINE = replace(
    penstock.ENGINE,
    name="penstock_other",
    venv=replace(penstock.VENV, name="penstock_other", project=PROJECT.resolve()),
    by_default=False,
    is_published=False,
)
