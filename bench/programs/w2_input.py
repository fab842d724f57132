"""The input of the workload with windows for engines on Spark: earlier copies of the files, then the files."""

import argparse
import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

WINDOW_MS = 10_000
DAY_MS = 86_400_000


def write_input(args: argparse.Namespace) -> tuple[int, int]:
    """Earlier copies of the files, the files themselves, and the last row; rows of the copies, and all windows."""
    folder = args.work / "input"
    folder.mkdir()
    files = sorted(args.data.glob("*.parquet"))
    tables = [pq.read_table(file) for file in files]
    times = [table["ts"] for table in tables]
    first, last = min(pc.min(ts).as_py() for ts in times), max(pc.max(ts).as_py() for ts in times)
    span_ms = (last - first) // WINDOW_MS * WINDOW_MS + 2 * WINDOW_MS
    count = args.repeated_batches * args.files_per_trigger
    cycles = -(-count // len(files))
    modified_s = int(files[0].stat().st_mtime) - count - 1
    repeated = windows = 0
    seen: dict[int, list[pa.Table]] = {}
    for index in range(cycles * len(files) - count, (cycles + 1) * len(files)):
        cycle, number = divmod(index, len(files))
        shifted = pc.subtract(times[number], (cycles - cycle) * span_ms)
        table = tables[number].set_column(1, "ts", shifted)
        path = folder / f"part-{index:05d}.parquet"
        pq.write_table(table, path)
        modified_s += 1
        os.utime(path, (modified_s, modified_s))
        repeated += table.num_rows if cycle < cycles else 0
        starts = pc.divide(shifted, WINDOW_MS)
        seen.setdefault(cycle, []).append(pa.table({"key": table["key"], "window": starts}))
    for parts in seen.values():
        windows += pa.concat_tables(parts).group_by(["key", "window"]).aggregate([]).num_rows
    end = pa.table({"key": ["end"], "ts": pa.array([last + DAY_MS], pa.int64()), "value": [0.0]})
    pq.write_table(end, folder / "part-99999.parquet")
    os.utime(folder / "part-99999.parquet", (modified_s + 1, modified_s + 1))
    return repeated, windows
