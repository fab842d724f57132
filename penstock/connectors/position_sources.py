"""Sources in Python that are read record by record: iterators with a position, sockets, and generated records.

Plain data; Spark reads them through `penstock.spark.position_readers`. A position is what JSON can hold. It is part of
every checkpoint, and a recovery opens the source again at the one that it restores.
"""

import codecs
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.errors import ArgumentError, UsageError
from penstock.model.delivery import Delivery
from penstock.model.source import Source
from penstock.model.types import TypeInformation, Types, resolve_type

Positioned = Iterator[tuple[Any, Any]]
"""Records, each with the position after it."""

RECONNECT_S = 1.0
RECEIVE_BYTES = 64 * 1024


class PositionSource(Protocol):
    """A source that can be opened at a position."""

    @property
    def record_type(self) -> TypeInformation: ...

    @property
    def bounded(self) -> bool: ...

    @property
    def replayable(self) -> bool:
        """Whether opening it again at a position yields the same records."""
        ...

    def open(self, position: Any) -> Positioned:
        """The records from a position on; None is the beginning."""
        ...


@dataclass(frozen=True)
class IteratorSource(Source):
    """The records of a Python iterator that can be opened at any position.

    >>> def numbers(position):
    ...     for n in range(position or 0, 3):
    ...         yield n, n + 1
    >>> list(IteratorSource.of(numbers, Types.LONG()).open(1))
    [(1, 2), (2, 3)]
    """

    factory: Callable[[Any], Positioned]
    record_type: TypeInformation
    bounded: bool = True
    replayable: bool = field(default=True, init=False)
    delivery: Delivery = field(default=Delivery.exactly_once(), init=False)

    @staticmethod
    def of(factory: Callable[[Any], Positioned], type_info: object = None, *, bounded: bool = True) -> "IteratorSource":
        """A source that calls `factory(position)`; the type is anything that `resolve_type` accepts."""
        if not callable(factory):
            raise ArgumentError(
                f"an iterator source takes a function of a position, not an object of type {type(factory).__name__}; "
                f"an iterator itself cannot be opened again after a failure"
            )
        return IteratorSource(factory, resolve_type(type_info), bounded)

    def open(self, position: Any) -> Positioned:
        """The factory's iterator."""
        return iter(self.factory(position))


@dataclass(frozen=True)
class SocketSource(Source):
    """Lines of text from a TCP server: at most once, because lines that were received cannot be requested again."""

    host: str
    port: int
    delimiter: str = "\n"
    record_type: TypeInformation = field(default=Types.STRING(), init=False)
    bounded: bool = field(default=False, init=False)
    replayable: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.port, int) or not 0 < self.port < 65536:
            raise UsageError(f"no port {self.port!r}; give a number from 1 to 65535")
        if not self.delimiter:
            raise UsageError("the delimiter of a socket source is empty; give what ends a line, such as '\\n'")

    @property
    def delivery(self) -> Delivery:
        """At most once: lines are gone once they have been received."""
        return Delivery.at_most_once(
            f"lines of {self.host}:{self.port} since the last checkpoint are lost in a failure",
            "write them to files or to Kafka, and read those",
        )

    def open(self, position: Any) -> Positioned:
        """Lines as they come, without an end. The position counts them.

        Raises ConnectionError if there is no server at the start; later it reconnects without a limit.
        """
        number = position or 0
        connection = socket.create_connection((self.host, self.port))
        while True:
            with connection:
                for line in self._lines(connection):
                    number += 1
                    yield line, number
            connection = self._reconnect()

    def _lines(self, connection: socket.socket) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        while data := _receive(connection):
            *lines, rest = (rest + decoder.decode(data)).split(self.delimiter)
            yield from (line.removesuffix("\r") if self.delimiter == "\n" else line for line in lines)
        if rest:
            yield rest

    def _reconnect(self) -> socket.socket:
        while True:
            threading.Event().wait(RECONNECT_S)
            try:
                return socket.create_connection((self.host, self.port))
            except OSError:
                continue


@dataclass(frozen=True)
class DataGeneratorSource(Source):
    """Records that a function computes from 0, 1, 2 …, at a limited rate.

    The function must return the same record for the same number whenever it is called.
    """

    function: Callable[[int], Any]
    record_type: TypeInformation
    count: int | None = None
    """How many; None: without an end."""
    rows_per_second: float | None = None
    """None: as fast as possible."""
    delivery: Delivery = field(default=Delivery.exactly_once(), init=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentError(f"a data generator takes a function of a number, not {self.function!r}")
        if self.count is not None and self.count < 0:
            raise UsageError(f"a data generator of {self.count} records; give 0 or more, or None for no end")
        if self.rows_per_second is not None and self.rows_per_second <= 0:
            raise UsageError(f"{self.rows_per_second} rows per second; give a number above 0")

    @staticmethod
    def of(
        function: Callable[[int], Any],
        type_info: object = None,
        *,
        count: int | None = None,
        rows_per_second: float | None = None,
    ) -> "DataGeneratorSource":
        """A source of `function(0)`, `function(1)` …; the type is anything that `resolve_type` accepts."""
        return DataGeneratorSource(function, resolve_type(type_info), count, rows_per_second)

    @property
    def bounded(self) -> bool:
        """Whether the source ends."""
        return self.count is not None


def _receive(connection: socket.socket) -> bytes:
    """The next bytes; empty when the connection has ended or was reset."""
    try:
        return connection.recv(RECEIVE_BYTES)
    except ConnectionError:
        return b""
