"""Spark's hash of whole key columns at once: the same numbers as `spark_hash`, some fifty times faster."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.columns import decode_column
from penstock.model.key_groups import SEED, spark_hash
from penstock.model.type_information import TypeInformation

Hashes: TypeAlias = npt.NDArray[np.uint32]

LONG_KEY_BYTES = 256
"""Longer keys are hashed one by one."""


def hash_columns(columns: Sequence[pa.Array], types: Sequence[TypeInformation]) -> npt.NDArray[np.int32]:
    """Spark's `hash(col, ...)` for each row; null fields leave the hash as it was."""
    count = len(columns[0]) if columns else 0
    hashes: Hashes = np.full(count, SEED, dtype=np.uint32)
    for column, type_info in zip(columns, types, strict=True):
        hashes = _hash_column(column, type_info, hashes)
    return hashes.view(np.int32)


def hash_texts(texts: Sequence[str]) -> npt.NDArray[np.int32] | None:
    """As `hash_columns` of one column of texts, without Arrow; None unless all have the same length in ASCII."""
    joined = "".join(texts)
    if not joined.isascii() or len(set(map(len, texts))) != 1 or len(joined) > LONG_KEY_BYTES * len(texts):
        return None
    data = np.frombuffer(joined.encode(), dtype=np.uint8).reshape(len(texts), -1)
    return _hash_matrix(data, np.full(len(texts), SEED, dtype=np.uint32)).view(np.int32)


def _hash_column(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    if column.type != type_info.arrow:
        column = column.cast(type_info.arrow)
    hasher = _HASHERS.get(type_info.name, _hash_slowly)
    if type_info.name == "DECIMAL" and type_info.arrow.precision > 18:
        hasher = _hash_slowly
    if not column.null_count:
        return hasher(column, type_info, seeds)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    hashes: Hashes = seeds.copy()
    hashes[present] = hasher(column.drop_null(), type_info, seeds[present])
    return hashes


def _hash_int(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    if type_info.name == "DATE":
        column = column.view(pa.int32())
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return _finish(_mix(values.astype(np.int32).view(np.uint32), seeds), 4)


def _hash_long(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    return _hash_bits(column.view(pa.int64()).to_numpy(zero_copy_only=False), seeds)


def _hash_bits(bits: npt.NDArray[np.int64], seeds: Hashes) -> Hashes:
    low = (bits & 0xFFFFFFFF).astype(np.uint32)
    high = ((bits >> 32) & 0xFFFFFFFF).astype(np.uint32)
    return _finish(_mix(high, _mix(low, seeds)), 8)


def _hash_double(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    values = column.to_numpy(zero_copy_only=False) + 0.0  # one zero
    bits = np.where(np.isnan(values), 0x7FF8000000000000, values.view(np.int64))
    return _hash_bits(bits, seeds)


def _hash_float(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    values = column.to_numpy(zero_copy_only=False) + np.float32(0.0)
    bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
    return _finish(_mix(bits, seeds), 4)


def _hash_small_decimal(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    """The low half of each 128-bit number holds a decimal of up to 18 digits."""
    halves = np.frombuffer(column.buffers()[1], dtype=np.int64)
    return _hash_bits(halves[2 * column.offset : 2 * (column.offset + len(column)) : 2], seeds)


def _hash_bytes(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.zeros(0, dtype=np.uint8)
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if longest > LONG_KEY_BYTES:
        return _hash_slowly(column, type_info, seeds)
    if longest * len(column) == int(offsets[-1]) - int(offsets[0]):
        return _hash_matrix(data[offsets[0] : offsets[-1]].reshape(len(column), longest), seeds)
    hashes = seeds.copy()
    aligned = lengths & ~3
    for word in range(0, int(aligned.max(initial=0)), 4):
        rows = np.flatnonzero(aligned > word)
        at = starts[rows] + word
        parts = [data[at + byte].astype(np.uint32) << np.uint32(8 * byte) for byte in range(4)]
        hashes[rows] = _mix(parts[0] | parts[1] | parts[2] | parts[3], hashes[rows])
    for extra in range(3):
        rows = np.flatnonzero(lengths - aligned > extra)
        tail = data[starts[rows] + aligned[rows] + extra]
        hashes[rows] = _mix(tail.view(np.int8).astype(np.int32).view(np.uint32), hashes[rows])
    return _finish(hashes, lengths.astype(np.uint32))


def _hash_matrix(data: npt.NDArray[np.uint8], seeds: Hashes) -> Hashes:
    """Texts of the same length, one per row."""
    length = data.shape[1]
    aligned = length & ~3
    words = _scramble(np.ascontiguousarray(data[:, :aligned]).view("<u4"))
    for word in words.T:
        seeds = _stir(word, seeds)
    for tail in data[:, aligned:].T:
        seeds = _mix(tail.view(np.int8).astype(np.int32).view(np.uint32), seeds)
    return _finish(seeds, length)


def _hash_struct(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    for index, child in enumerate(type_info.children):
        seeds = _hash_column(column.field(index), child, seeds)
    return seeds


def _hash_slowly(column: pa.Array, type_info: TypeInformation, seeds: Hashes) -> Hashes:
    """One value at a time; for long keys and big decimals."""
    values = column.to_pylist() if type_info.kind == "tagged" else decode_column(column, type_info)
    hashes = [spark_hash((value,), (type_info,), seed) for value, seed in zip(values, seeds.tolist(), strict=True)]
    return np.array(hashes, dtype=np.int32).view(np.uint32)


_C1, _C2, _C3, _C4, _C5 = map(np.uint32, (0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35))
_5, _13, _15, _16, _17, _19 = map(np.uint32, (5, 13, 15, 16, 17, 19))


def _mix(k: Hashes, h: Hashes) -> Hashes:
    return _stir(_scramble(k), h)


def _scramble(k: Hashes) -> Hashes:
    k = k * _C1
    scrambled: Hashes = ((k << _15) | (k >> _17)) * _C2
    return scrambled


def _stir(k: Hashes, h: Hashes) -> Hashes:
    h = h ^ k
    stirred: Hashes = ((h << _13) | (h >> _19)) * _5 + _C3
    return stirred


def _finish(h: Hashes, length: int | Hashes) -> Hashes:
    h = h ^ (np.uint32(length) if isinstance(length, int) else length)
    h = (h ^ (h >> _16)) * _C4
    h = (h ^ (h >> _13)) * _C5
    finished: Hashes = h ^ (h >> _16)
    return finished


_HASHERS: dict[str, Callable[[pa.Array, TypeInformation, Hashes], Hashes]] = {
    **dict.fromkeys(("BOOLEAN", "BYTE", "SHORT", "INT", "DATE"), _hash_int),
    **dict.fromkeys(("LONG", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "INSTANT", "DURATION"), _hash_long),
    **dict.fromkeys(("STRING", "BINARY", "TAGGED"), _hash_bytes),
    **dict.fromkeys(("ROW", "TUPLE"), _hash_struct),
    "DOUBLE": _hash_double,
    "FLOAT": _hash_float,
    "DECIMAL": _hash_small_decimal,
}
