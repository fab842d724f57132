"""Key groups: which subtask owns a key, derived from the result of Spark's `hash`.

`spark_hash` is Murmur3 x86_32 with seed 42 as Spark SQL computes it, so that the JVM and Python agree on every key.
Unlike standard Murmur3, Spark hashes the bytes after the last whole word one by one and sign-extended.
"""

import struct
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.time import EPOCH, MICROSECOND, NAIVE_EPOCH, Instant
from penstock.model.type_information import TypeInformation

MAX_KEY_GROUPS = 32768
DEFAULT_KEY_GROUPS = 128
SEED = 42

_MASK = 0xFFFFFFFF
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_WIDE = Context(prec=80)


def key_group_range(max_parallelism: int, parallelism: int, index: int) -> tuple[int, int]:
    """The first and the last key group of subtask `index`, both included.

    >>> [key_group_range(128, 3, index) for index in range(3)]
    [(0, 42), (43, 85), (86, 127)]
    """
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= index < parallelism:
        raise UsageError(f"there is no subtask {index} at parallelism {parallelism}; subtasks are counted from 0")
    first = (index * max_parallelism + parallelism - 1) // parallelism
    return first, ((index + 1) * max_parallelism - 1) // parallelism


def subtask_of(key_group: int, max_parallelism: int, parallelism: int) -> int:
    """The subtask that owns a key group."""
    return key_group * parallelism // max_parallelism


def subtasks_of(hashes: npt.NDArray[np.int32], max_parallelism: int, parallelism: int) -> npt.NDArray[np.int32]:
    """The subtasks that own the keys with these hashes."""
    owners: npt.NDArray[np.int32] = hashes % max_parallelism * parallelism // max_parallelism
    return owners


def default_max_parallelism(parallelism: int) -> int:
    """The default number of key groups: a power of two from 128 to 32768, with room for a higher parallelism.

    >>> default_max_parallelism(4), default_max_parallelism(86), default_max_parallelism(200)
    (128, 256, 512)
    """
    wanted = parallelism + parallelism // 2
    return min(max(1 << (wanted - 1).bit_length() if wanted > 1 else 1, DEFAULT_KEY_GROUPS), MAX_KEY_GROUPS)


def check_parallelism(max_parallelism: int, parallelism: int) -> None:
    """Raise UsageError unless the key groups can be distributed over this many subtasks."""
    if not 1 <= max_parallelism <= MAX_KEY_GROUPS:
        raise UsageError(f"max parallelism {max_parallelism} is not between 1 and {MAX_KEY_GROUPS}")
    if not 1 <= parallelism <= max_parallelism:
        raise UsageError(
            f"parallelism {parallelism} is not between 1 and the max parallelism {max_parallelism}; "
            f"lower it, or set a higher max parallelism before the job's first start"
        )


def key_group_of(key_hash: int, max_parallelism: int) -> int:
    """The key group of a key's hash: Spark's `pmod(hash, max_parallelism)`."""
    return key_hash % max_parallelism


def spark_hash(values: Sequence[Any], types: Sequence[TypeInformation], seed: int = SEED) -> int:
    """The result of Spark's `hash(col, ...)` for columns of these types; signed, 32 bits.

    The value of an untyped key is its canonical bytes.
    """
    result = seed
    for value, type_info in zip(values, types, strict=True):
        if value is not None:
            result = _hash_value(value, type_info, result)
    return result - 0x1_0000_0000 if result & 0x8000_0000 else result


def hash_bytes(data: bytes, seed: int = SEED) -> int:
    """Spark's hash of a binary or UTF-8 value, unsigned."""
    h = seed & _MASK
    length = len(data)
    aligned = length & ~3
    for (word,) in struct.iter_unpack("<I", data[:aligned]):
        k = (word * 0xCC9E2D51) & _MASK
        k = (((k << 15) | (k >> 17)) * 0x1B873593) & _MASK
        h ^= k
        h = (((h << 13) | (h >> 19)) * 5 + 0xE6546B64) & _MASK
    for byte in data[aligned:]:
        h = _mix((byte - 256 if byte > 127 else byte) & _MASK, h)
    return _finish(h, length)


def hash_int(value: int, seed: int = SEED) -> int:
    """Spark's hash of a value of up to 32 bits, unsigned."""
    return _finish(_mix(value & _MASK, seed), 4)


def hash_long(value: int, seed: int = SEED) -> int:
    """Spark's hash of a 64 bit value, unsigned."""
    return _finish(_mix((value >> 32) & _MASK, _mix(value & _MASK, seed)), 8)


def _mix(k: int, h: int) -> int:
    k = (k * 0xCC9E2D51) & _MASK
    k = (((k << 15) | (k >> 17)) * 0x1B873593) & _MASK
    h ^= k
    return (((h << 13) | (h >> 19)) * 5 + 0xE6546B64) & _MASK


def _finish(h: int, length: int) -> int:
    h ^= length
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & _MASK
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def _hash_value(value: Any, type_info: TypeInformation, seed: int) -> int:
    name = type_info.name
    if name in ("STRING", "LONG", "INT"):  # the usual keys first
        if name == "STRING":
            return hash_bytes(value.encode("utf-8", "surrogatepass"), seed)
        return hash_long(value, seed) if name == "LONG" else hash_int(value, seed)
    if name in ("TAGGED", "BINARY"):
        return hash_bytes(value, seed)
    if name in ("SHORT", "BYTE", "BOOLEAN"):
        return hash_int(int(value), seed)
    if name == "DOUBLE":
        return hash_long(_double_bits(float(value)), seed)
    if name == "FLOAT":
        return hash_int(_float_bits(float(value)), seed)
    if name == "DATE":
        return hash_int(value.toordinal() - _EPOCH_DAY, seed)
    if name in ("TIMESTAMP", "TIMESTAMP_NTZ", "INSTANT", "DURATION", "TIME"):
        return hash_long(_microseconds(value), seed)
    if name in ("DECIMAL", "BIG_INT"):
        return _hash_decimal(Decimal(value), type_info.arrow.precision, type_info.arrow.scale, seed)
    if name in ("ROW", "TUPLE"):
        for item, child in zip(value, type_info.children, strict=True):
            seed = seed if item is None else _hash_value(item, child, seed)
        return seed
    raise UnsupportedValueError(
        f"type {type_info.text} cannot be a key; use numbers, text, dates, timestamps or decimals, or leave the key "
        f"untyped"
    )


def _hash_decimal(value: Decimal, precision: int, scale: int, seed: int) -> int:
    """The hash of the unscaled number: up to 18 digits as a long, more as the bytes of Java's BigInteger."""
    unscaled = int(value.scaleb(scale, context=_WIDE))
    if precision <= 18:
        return hash_long(unscaled, seed)
    bits = unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()
    return hash_bytes(unscaled.to_bytes(bits // 8 + 1, "big", signed=True), seed)


def _double_bits(value: float) -> int:
    """The bits that Spark hashes. Both zeros have the bits of 0.0, and all NaNs have the same bits."""
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if value == value else 0x7FF8000000000000


def _float_bits(value: float) -> int:
    bits: int = struct.unpack("<i", struct.pack("<f", value + 0.0))[0]
    return bits if value == value else 0x7FC00000


def _microseconds(value: Any) -> int:
    if isinstance(value, datetime):
        return int((value - (NAIVE_EPOCH if value.tzinfo is None else EPOCH)) // MICROSECOND)
    if isinstance(value, Instant):
        return value.to_epoch_micro()
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return int(value // MICROSECOND)
