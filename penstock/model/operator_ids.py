"""Operator ids as in Flink: 32 hex digits derived from a uid."""

from penstock.model.ids import HEX_ID

_C1, _C2, _MASK = 0x87C37B91114253D5, 0x4CF5AD432745937F, (1 << 64) - 1


def operator_id(uid: str) -> str:
    """The id of the operator with this uid. A uid that already has the form of an id is returned as it is.

    >>> operator_id("my-uid")
    '8409efe6adc6d20787611f16017c808f'
    """
    return uid if HEX_ID.fullmatch(uid) else murmur3_128(uid.encode("utf-8")).hex()


def murmur3_128(data: bytes) -> bytes:
    """MurmurHash3, x64, 128 bits, seed 0, in the byte order of Guava and so of Flink."""
    first = second = 0
    whole = len(data) // 16 * 16
    for start in range(0, whole, 16):
        first ^= _mixed_first(int.from_bytes(data[start : start + 8], "little"))
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _MASK
        second ^= _mixed_second(int.from_bytes(data[start + 8 : start + 16], "little"))
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _MASK
    rest = data[whole:].ljust(16, b"\0")
    second ^= _mixed_second(int.from_bytes(rest[8:], "little"))
    first ^= _mixed_first(int.from_bytes(rest[:8], "little"))
    first, second = first ^ len(data), second ^ len(data)
    first = first + second & _MASK
    second = second + first & _MASK
    first, second = _final(first), _final(second)
    first = first + second & _MASK
    second = second + first & _MASK
    return first.to_bytes(8, "little") + second.to_bytes(8, "little")


def _mixed_first(block: int) -> int:
    return _rotated(block * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_second(block: int) -> int:
    return _rotated(block * _C2 & _MASK, 33) * _C1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _final(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
