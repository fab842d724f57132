"""State descriptors: the name, type and function of a state, and how long its entries live."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError
from penstock.model.functions import AggregateFunction, ReduceFunction
from penstock.model.ids import RESERVED_PREFIX
from penstock.model.ttl import StateTtlConfig
from penstock.model.type_information import TypeInformation, as_key_type, list_of, map_of
from penstock.model.types import resolve_type

__all__ = [
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "Migration",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueStateDescriptor",
]

MAX_STATE_NAME_BYTES = 255


@dataclass(frozen=True)
class Migration:
    """How values that were saved with another type are converted to this one."""

    function: Callable[[Any], Any]
    from_pickle: bool
    """Whether old values that are pickles may be loaded."""


class StateDescriptor(ABC):
    """Name and type of a state. Types are anything that `resolve_type` accepts; None means untyped values."""

    def __init__(self, name: str, type_info: Any = None) -> None:
        self.name = check_state_name(name)
        self.type_info: TypeInformation = resolve_type(type_info)
        self.ttl_config: StateTtlConfig | None = None
        self.migration: Migration | None = None
        self._queryable_name: str | None = None

    @property
    @abstractmethod
    def kind(self) -> str:
        """value, list, map, reducing or aggregating."""

    @property
    def value_type(self) -> TypeInformation:
        """The type stored for each key; for a map the type of its values, for a list the type of the whole list."""
        return self.type_info

    @property
    def map_key_type(self) -> TypeInformation | None:
        """The type of a map's keys; None for other kinds."""
        return None

    def get_name(self) -> str:
        """The state's name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let entries expire according to the configuration."""
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeError(f"state {self.name!r}: {ttl_config!r} is not a StateTtlConfig; make one with new_builder()")
        self.ttl_config = ttl_config

    def set_queryable(self, queryable_state_name: str) -> None:
        """Let queries read this state under a name, while the job runs. The name is unique in the job."""
        name = check_state_name(queryable_state_name)
        if self.type_info.uses_pickle:
            raise UsageError(
                f"state {self.name!r} cannot be queried: its type {self.type_info.text} is stored as pickles, which "
                f"are never sent to clients; declare a type"
            )
        if self._queryable_name not in (None, name):
            raise UsageError(f"state {self.name!r} is queryable as {self._queryable_name!r} already")
        self._queryable_name = name

    def is_queryable(self) -> bool:
        """Whether `set_queryable` was called."""
        return self._queryable_name is not None

    def get_queryable_state_name(self) -> str | None:
        """The name that queries use; None if the state is not queryable."""
        return self._queryable_name

    def migrate(self, function: Callable[[Any], Any], *, from_pickle: bool = False) -> None:
        """Set the function that converts values saved with another type to this one.

        The function is called once for each entry of a restored state whose saved type differs from this one in a way
        that no rule of schema evolution covers, and never otherwise: with the value of a value, reducing or aggregating
        state, with each element of a list, with each value of a map. It gets the old value, decoded with the old type,
        and returns the new one, or None to drop the entry. A None in a map stays None. Keys cannot be migrated.

        `from_pickle`: old values that are pickles may be loaded. Loading a pickle can run arbitrary code: use
        it only for snapshots that you trust.
        """
        if not callable(function):
            raise TypeError(f"state {self.name!r}: {function!r} is not a function of the old value")
        self.migration = Migration(function, from_pickle)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info.text!r})"


class ValueStateDescriptor(StateDescriptor):
    """One value per key."""

    kind = "value"

    def __init__(self, name: str, value_type_info: Any = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """A list of elements per key."""

    kind = "list"

    def __init__(self, name: str, elem_type_info: Any = None) -> None:
        self.element_type = resolve_type(elem_type_info)
        super().__init__(name, list_of(self.element_type))


class MapStateDescriptor(StateDescriptor):
    """A dictionary per key."""

    kind = "map"

    def __init__(self, name: str, key_type_info: Any = None, value_type_info: Any = None) -> None:
        key_type, value_type = as_key_type(resolve_type(key_type_info)), resolve_type(value_type_info)
        if key_type.uses_pickle:
            raise UsageError(f"state {name!r}: a pickled type cannot be a map key; equal objects may differ in bytes")
        super().__init__(name, map_of(key_type, value_type))

    @property
    def value_type(self) -> TypeInformation:
        return self.type_info.children[1]

    @property
    def map_key_type(self) -> TypeInformation:
        return self.type_info.children[0]


class ReducingStateDescriptor(StateDescriptor):
    """One value per key, combined by a function of two values."""

    kind = "reducing"

    def __init__(
        self, name: str, reduce_function: ReduceFunction | Callable[[Any, Any], Any], type_info: Any = None
    ) -> None:
        super().__init__(name, type_info)
        if isinstance(reduce_function, ReduceFunction):
            self._reduce_function = reduce_function
        elif callable(reduce_function):
            self._reduce_function = ReduceByCallable(reduce_function)
        else:
            raise TypeError("The input must be a ReduceFunction or a callable function!")

    def get_reduce_function(self) -> ReduceFunction:
        """The function that combines two values."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """One accumulator per key; `state_type_info` is the accumulator's type."""

    kind = "aggregating"

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: Any = None) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise TypeError("The input must be an AggregateFunction!")
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """The aggregating function."""
        return self._agg_function


class ReduceByCallable(ReduceFunction):
    """A plain callable as a ReduceFunction."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self._function(value1, value2)


def check_state_name(name: str) -> str:
    """The name, if it is valid for a state."""
    if not isinstance(name, str):
        raise UsageError(f"a state's name is text, not {name!r}")
    problem = None
    if not name:
        problem = "it is empty"
    elif len(name.encode("utf-8", "surrogatepass")) > MAX_STATE_NAME_BYTES:
        problem = f"it is longer than {MAX_STATE_NAME_BYTES} bytes"
    elif "/" in name or not name.isprintable():
        problem = "it contains '/' or a character that cannot be printed"
    elif name.startswith(RESERVED_PREFIX):
        problem = f"names that start with {RESERVED_PREFIX!r} are used for timers"
    if problem is not None:
        raise UsageError(f"{name[:60]!r} cannot name a state: {problem}; choose another name")
    return name
