"""`Option`: one configuration key, its type, its default and what it does."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.model.option_types import ValueType

T = TypeVar("T")


@dataclass(frozen=True)
class Option(Generic[T]):
    """A key that is declared once; `Configuration.get` reads it.

    >>> from penstock.model.configuration import Configuration
    >>> from penstock.model.option_types import Milliseconds
    >>> interval = Option("example.interval", Milliseconds(), 5000, "Time between two examples.")
    >>> Configuration().get(interval), Configuration.from_dict({"example.interval": "2 min"}).get(interval)
    (5000, 120000)
    """

    key: str
    type: ValueType[T]
    default: T
    text: str
    """What the option does, in one or two sentences."""
    old_keys: tuple[str, ...] = ()
    """Names that the key had in older versions of Flink; they still set it."""
    no_effect: str | None = None
    """Why the key is accepted and changes nothing; None where it has an effect."""
    default_text: str = ""
    """What the reference says about a default that depends on something else."""

    def describe_default(self) -> str:
        """The default, as the reference shows it."""
        if self.default_text:
            return self.default_text
        if self.default is None or self.default == ():
            return "none"
        return f"`{self.type.format(self.default)}`"


@dataclass(frozen=True)
class KeyFamily:
    """All keys that begin with a prefix and have no `Option` of their own. Their values are not checked."""

    prefix: str
    text: str = ""
    no_effect: str | None = None
    """Why the keys are accepted and change nothing; None where they have an effect."""
