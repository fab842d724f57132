"""How values of options are written as text, what they mean, and which of them are allowed.

A type parses the text of a setting. It raises ConfigurationError with a message that quotes the text but does not name
the key: the caller knows the key and where the setting came from.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from penstock.errors import ConfigurationError
from penstock.model.quantities import (
    format_duration_ms,
    format_size_bytes,
    parse_boolean,
    parse_duration_ms,
    parse_integer,
    parse_ports,
    parse_size_bytes,
)

T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=Enum)

INFINITE = 2**31 - 1
"""A number of attempts that is never reached: Flink's `Integer.MAX_VALUE`."""


class ValueType(ABC, Generic[T_co]):
    """The type of an option's value."""

    @abstractmethod
    def parse(self, text: str) -> T_co:
        """The value that the text stands for."""

    @abstractmethod
    def describe(self) -> str:
        """What the reference says about the values that are allowed."""

    def format(self, value: Any) -> str:
        """The text that stands for a value; `parse` gives the value back."""
        return str(value)


@dataclass(frozen=True)
class Text(ValueType[str]):
    """Any text."""

    def parse(self, text: str) -> str:
        return text

    def describe(self) -> str:
        return "text"


@dataclass(frozen=True)
class OptionalText(ValueType["str | None"]):
    """Any text; an empty one is the same as none."""

    def parse(self, text: str) -> str | None:
        return text if text.strip() else None

    def describe(self) -> str:
        return "text"


@dataclass(frozen=True)
class Boolean(ValueType[bool]):
    """True or false."""

    def parse(self, text: str) -> bool:
        return parse_boolean(text)

    def describe(self) -> str:
        return "true or false"

    def format(self, value: Any) -> str:
        return "true" if value else "false"


@dataclass(frozen=True)
class RangedType(ValueType[T_co]):
    """A number that may have bounds."""

    least: float | None = None
    most: float | None = None
    too_small: str = ""
    """The message about a number below `least`; a plain one if it is empty."""
    too_large: str = ""
    """The message about a number above `most`; a plain one if it is empty."""

    def check(self, number: float, text: str) -> None:
        """Raise ConfigurationError if the number is out of bounds. `text` is how it was written."""
        if self.least is not None and not number >= self.least:
            problem = self.too_small or f"give {self.format(self.least)} or more"
            raise ConfigurationError(f"{problem}, not {text!r}")
        if self.most is not None and not number <= self.most:
            problem = self.too_large or f"give {self.format(self.most)} at most"
            raise ConfigurationError(f"{problem}, not {text!r}")

    def describe_range(self) -> str:
        """The bounds, as the reference shows them behind the type; empty without any."""
        if self.least is None and self.most is None:
            return ""
        if self.most is None:
            return f", {self.format(self.least)} or more"
        if self.least is None:
            return f", {self.format(self.most)} at most"
        return f", {self.format(self.least)} to {self.format(self.most)}"


@dataclass(frozen=True)
class Integer(RangedType[int]):
    """A whole number."""

    def parse(self, text: str) -> int:
        number = parse_integer(text)
        self.check(number, text)
        return number

    def describe(self) -> str:
        return "integer" + self.describe_range()


@dataclass(frozen=True)
class Attempts(ValueType[int]):
    """A number of attempts, or `infinite`."""

    def parse(self, text: str) -> int:
        if text.strip().lower() in ("infinite", "inf"):
            return INFINITE
        return Integer(least=0).parse(text)

    def describe(self) -> str:
        return "integer, 0 or more, or `infinite`"

    def format(self, value: Any) -> str:
        return "infinite" if value >= INFINITE else str(value)


@dataclass(frozen=True)
class Number(RangedType[float]):
    """A number, with or without a fraction."""

    def parse(self, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise ConfigurationError(f"{text!r} is not a number") from None
        self.check(number, text)
        return number

    def describe(self) -> str:
        return "number" + self.describe_range()

    def format(self, value: Any) -> str:
        return f"{value:g}"


@dataclass(frozen=True)
class Milliseconds(RangedType[int]):
    """A duration, in milliseconds."""

    def parse(self, text: str) -> int:
        milliseconds = parse_duration_ms(text)
        self.check(milliseconds, text)
        return milliseconds

    def describe(self) -> str:
        return "duration" + (self.describe_range() if self.least else "")  # no duration is below 0

    def format(self, value: Any) -> str:
        return format_duration_ms(value)


@dataclass(frozen=True)
class Size(RangedType[int]):
    """A size, in bytes."""

    def parse(self, text: str) -> int:
        size_bytes = parse_size_bytes(text)
        self.check(size_bytes, text)
        return size_bytes

    def describe(self) -> str:
        return "size" + self.describe_range()

    def format(self, value: Any) -> str:
        return format_size_bytes(value)


@dataclass(frozen=True)
class Word(ValueType[str]):
    """One of a few words; upper case, and `_` for `-`, are accepted too."""

    words: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of the words."""

    def parse(self, text: str) -> str:
        word = _normal_form(text)
        word = self.aliases.get(word, word)
        for known in self.words:
            if word == _normal_form(known):
                return known
        raise ConfigurationError(f"{text!r} is not one of {', '.join(self.words)}")

    def describe(self) -> str:
        return ", ".join(f"`{word}`" for word in self.words)


@dataclass(frozen=True)
class Member(ValueType[E]):
    """A member of an enumeration, by its name; lower case, and `-` for `_`, are accepted too."""

    enumeration: type[E]

    def parse(self, text: str) -> E:
        names = [member.name for member in self.enumeration]
        return self.enumeration[Word(tuple(names)).parse(text)]

    def describe(self) -> str:
        return ", ".join(f"`{member.name}`" for member in self.enumeration)

    def format(self, value: Any) -> str:
        return str(value.name)


@dataclass(frozen=True)
class Words(ValueType["tuple[str, ...]"]):
    """Several words of a few, separated by `;` or `,`."""

    words: tuple[str, ...]

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(Word(self.words).parse(part) for part in re.split("[;,]", text) if part.strip())

    def describe(self) -> str:
        return "a list of " + Word(self.words).describe()

    def format(self, value: Any) -> str:
        return ";".join(value)


@dataclass(frozen=True)
class Folders(ValueType["tuple[str, ...]"]):
    """Folders of the machine, separated by `,`, `:` or `;`, as absolute paths."""

    def parse(self, text: str) -> tuple[str, ...]:
        parts = [part.strip() for part in re.split("[,:;]", text.replace("file://", ""))]
        return tuple(str(Path(part).expanduser().absolute()) for part in parts if part)

    def describe(self) -> str:
        return "folders, separated by `,`"

    def format(self, value: Any) -> str:
        return ";".join(value)


@dataclass(frozen=True)
class Pairs(ValueType["dict[str, str]"]):
    """Names with values, as Flink writes maps: `name:value,other:value`. A part in quotes may contain `,` and `:`."""

    def parse(self, text: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in _split_unquoted(text, ","):
            name, *values = _split_unquoted(entry, ":")
            if not name or not values:
                raise ConfigurationError(f"{entry!r} is not of the form name:value")
            found[_unquoted(name)] = _unquoted(":".join(values))
        return found

    def describe(self) -> str:
        return "pairs such as `name:value,other:value`"

    def format(self, value: Any) -> str:
        return ",".join(f"{_quoted(name)}:{_quoted(str(item))}" for name, item in value.items())


@dataclass(frozen=True)
class Ports(ValueType[range]):
    """A port, or a range of ports."""

    def parse(self, text: str) -> range:
        return parse_ports(text)

    def describe(self) -> str:
        return "a port, or a range of ports such as `50100-50200`"

    def format(self, value: Any) -> str:
        return str(value.start) if len(value) == 1 else f"{value.start}-{value.stop - 1}"


def _normal_form(word: str) -> str:
    return word.strip().lower().replace("_", "-")


def _split_unquoted(text: str, separator: str) -> list[str]:
    """The parts between separators that are not in quotes, without the blanks around them."""
    parts = re.findall(rf"(?:'(?:[^']|'')*'|[^'{separator}])+", text)
    return [part.strip() for part in parts if part.strip()]


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'") if len(text) > 1 and text[0] == text[-1] == "'" else text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if re.search(r"[',:]|^\s|\s$|^$", text) else text
