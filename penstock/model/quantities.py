"""The text of durations, sizes, numbers, booleans and ports in a configuration.

A value that cannot be parsed is a ConfigurationError that quotes the text.
"""

import re
from collections.abc import Mapping

from penstock.errors import ConfigurationError

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_DURATION_MS = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1e-6),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_SIZE_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mib", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gib", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tib", "tebibytes"), 1 << 40),
}
_QUANTITY = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*")


def parse_boolean(text: str) -> bool:
    """True or false, as configuration files write them.

    >>> parse_boolean("true"), parse_boolean("off")
    (True, False)
    """
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ConfigurationError(f"{text!r} is not true or false")
    return word in _TRUE


def parse_integer(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is not a number") from None


def parse_duration_ms(value: str | int) -> int:
    """A duration in milliseconds, from text such as "5s" or "500 ms", or from a number of milliseconds.

    >>> parse_duration_ms("5s"), parse_duration_ms("500 ms"), parse_duration_ms(5000), parse_duration_ms("2 min")
    (5000, 500, 5000, 120000)
    """
    number, factor = _quantity(value, _DURATION_MS, "a duration such as '5s' or '500 ms'")
    return int(number * factor)


def parse_size_bytes(value: str | int) -> int:
    """A size in bytes, from text such as "64 kb" or from a number of bytes.

    >>> parse_size_bytes("64 kb"), parse_size_bytes("1 GiB")
    (65536, 1073741824)
    """
    number, factor = _quantity(value, _SIZE_BYTES, "a size such as '64 kb' or '1 gb'")
    return int(number * factor)


def parse_ports(text: str) -> range:
    """A port, or a range of ports.

    >>> parse_ports("8081"), parse_ports("50100-50200"), parse_ports("0")
    (range(8081, 8082), range(50100, 50201), range(0, 1))
    """
    first, dash, last = text.partition("-")
    try:
        ports = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        ports = range(0)
    if not ports or ports.start < 0 or ports.stop > 65536:
        raise ConfigurationError(f"{text!r} is not a port or a range of ports such as 50100-50200")
    return ports


def _quantity(value: str | int, units: Mapping[str, float], expected: str) -> tuple[int, float]:
    match = _QUANTITY.fullmatch(str(value).lower()) if not isinstance(value, bool) else None
    if match is None or match.group(2) not in units:
        raise ConfigurationError(f"{value!r} is not {expected}")
    return int(match.group(1)), units[match.group(2)]


def format_duration_ms(milliseconds: int) -> str:
    """A duration in the largest unit that has no fraction.

    >>> format_duration_ms(600_000), format_duration_ms(1500)
    ('10 min', '1500 ms')
    """
    return _in_largest_unit(milliseconds, (("h", 3_600_000), ("min", 60_000), ("s", 1000)), "ms")


def format_size_bytes(size_bytes: int) -> str:
    """A size in the largest unit that has no fraction.

    >>> format_size_bytes(20 * 1024), format_size_bytes(1000)
    ('20 kb', '1000 b')
    """
    return _in_largest_unit(size_bytes, (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)), "b")


def _in_largest_unit(value: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    for unit, size in units:
        if value and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value} {smallest}"
