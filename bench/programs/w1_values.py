"""The values that queries of workload W1's state may return: the count of a key, and the sum of its values."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pa_parquet


def final_counts(folder: Path) -> dict[str, int]:
    """How often each key is in the files of a folder. A file with several names is read once and counts for each."""
    names = Counter(path.stat().st_ino for path in folder.iterdir())
    files = {path.stat().st_ino: path for path in folder.iterdir()}
    counts: Counter[str] = Counter()
    for inode, path in files.items():
        for entry in read_keys(path).value_counts().to_pylist():
            counts[entry["values"]] += entry["counts"] * names[inode]
    return dict(counts)


def early_keys(data: Path) -> list[str]:
    """The keys in the oldest quarter of the files: all of them have state when the warm-up is over."""
    files = sorted(data.glob("*.parquet"))
    return sorted({key for path in files[: len(files) // 4] for key in read_keys(path).unique().to_pylist()})


def read_keys(path: Path):
    """The column of keys."""
    return pa_parquet.read_table(path, columns=["key"])["key"]


def check_values(keys: list[str], values: list, final: dict[str, int]) -> None:
    """Raise ValueError for a value that no moment of the job can have: a count below 1 or above the final one."""
    for key, value in zip(keys, values, strict=True):
        if value is None or type(value[0]) is not int or not 1 <= value[0] <= final[key]:
            raise ValueError(f"the value of {key!r} is {value!r}, and its final count {final[key]}")
