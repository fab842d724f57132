"""How many results are right, computed from the input with numpy and pyarrow and without any engine."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def key_count(table: pa.Table, column: str = "key") -> int:
    """How many different keys there are."""
    return int(pc.count_distinct(table[column]).as_py())


def join_pairs(left: pa.Table, right: pa.Table, upper_ms: int) -> int:
    """Pairs of rows with one key and `left.ts <= right.ts <= left.ts + upper_ms`."""
    names = pa.chunked_array([*left["key"].chunks, *right["key"].chunks]).combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy().astype(np.int64)
    left_ts, right_ts = _int64(left, "ts"), _int64(right, "ts")
    base = min(left_ts.min(initial=0), right_ts.min(initial=0))
    span = int(max(left_ts.max(initial=0), right_ts.max(initial=0)) - base) + upper_ms + 1
    left_place = codes[: len(left_ts)] * span + (left_ts - base)
    right_place = np.sort(codes[len(left_ts) :] * span + (right_ts - base))
    first = np.searchsorted(right_place, left_place, "left")
    behind = np.searchsorted(right_place, left_place + upper_ms, "right")
    return int((behind - first).sum())


def window_counts(table: pa.Table, size_ms: int) -> int:
    """Pairs of key and window, for keys that are texts."""
    windows = pc.divide(table["ts"], size_ms)
    return int(pa.table({"key": table["key"], "window": windows}).group_by(["key", "window"]).aggregate([]).num_rows)


def window_keys(table: pa.Table, column: str | None, size_ms: int, slide_ms: int | None = None) -> int:
    """Windows with at least one row, for each value of a column; without a column, all rows are of one key.

    Windows start at multiples of the slide; without one they follow each other.
    """
    slide_ms = slide_ms or size_ms
    latest = _int64(table, "ts") // slide_ms
    keys = np.zeros(len(latest), np.int64) if column is None else _int64(table, column)
    places = [_places(keys, latest - back, latest) for back in range(size_ms // slide_ms)]
    return len(np.unique(np.concatenate(places)))


def common_window_keys(left: pa.Table, right: pa.Table, columns: tuple[str, str], size_ms: int) -> int:
    """Pairs of key and window that both tables have; `columns` are their keys."""
    windows = [_int64(table, "ts") // size_ms for table in (left, right)]
    together = np.concatenate(windows)
    sides = zip((left, right), columns, windows, strict=True)
    places = [_places(_int64(table, column), own, together) for table, column, own in sides]
    left_places, right_places = places
    return len(np.intersect1d(left_places, right_places))


def session_count(table: pa.Table, column: str, gap_ms: int) -> int:
    """Sessions per key: a row belongs to the one before it if it comes less than the gap later."""
    keys, ts = _int64(table, column), _int64(table, "ts")
    order = np.lexsort((ts, keys))
    keys, ts = keys[order], ts[order]
    starts = (np.diff(keys) != 0) | (np.diff(ts) >= gap_ms)
    return int(starts.sum()) + (len(keys) > 0)


def _places(keys: np.ndarray, windows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """One number for each pair of key and window. Windows may be up to ten before the first of the known ones."""
    first = known.min(initial=0) - 10
    return np.asarray(keys * (known.max(initial=0) - first + 1) + windows - first, np.int64)


def _int64(table: pa.Table, column: str) -> np.ndarray:
    return np.asarray(table[column].to_numpy(), np.int64)
