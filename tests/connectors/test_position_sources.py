"""Sources in Python without Spark: sockets, and what is refused."""

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Types
from penstock.connectors import position_sources
from penstock.connectors.position_sources import DataGeneratorSource, IteratorSource, SocketSource
from penstock.connectors.source_connectors import FileSource
from penstock.errors import ArgumentError, UsageError


def serve(*connections: bytes) -> int:
    """The port of a server that sends one text to each connection and closes it, and then is gone."""
    server = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with server:
            for data in connections:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(data)

    threading.Thread(target=run, daemon=True).start()
    return int(server.getsockname()[1])


def test_lines_of_a_socket_are_counted_over_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_sources, "RECONNECT_S", 0.0)
    port = serve(b"one\r\ntwo\nthr", "ée\n".encode())
    lines = SocketSource("127.0.0.1", port).open(7)
    assert [next(lines) for _ in range(4)] == [("one", 8), ("two", 9), ("thr", 10), ("ée", 11)]


def test_a_delimiter_of_its_own() -> None:
    lines = SocketSource("127.0.0.1", serve(b"a;b\n;c;"), ";").open(None)
    assert [next(lines)[0] for _ in range(3)] == ["a", "b\n", "c"]


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        next(SocketSource("127.0.0.1", port).open(None))


def test_q4_a_socket_is_at_most_once_and_says_what_to_do() -> None:
    delivery = SocketSource("example.org", 99).delivery
    assert delivery.may_lose and not delivery.may_repeat
    assert "example.org:99" in delivery.reason and "files" in delivery.remedy


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SocketSource("h", 0), UsageError, "no port 0; give a number from 1 to 65535"),
        (lambda: SocketSource("h", 1, ""), UsageError, "the delimiter of a socket source is empty"),
        (
            lambda: IteratorSource.of(iter([])),  # type: ignore[arg-type]
            ArgumentError,
            "takes a function of a position",
        ),
        (
            lambda: DataGeneratorSource.of(3),  # type: ignore[arg-type]
            ArgumentError,
            "takes a function of a number, not 3",
        ),
        (lambda: DataGeneratorSource.of(str, rows_per_second=0), UsageError, "0 rows per second"),
        (lambda: DataGeneratorSource.of(str, count=-1), UsageError, "a data generator of -1 records"),
        (
            lambda: FileSource.of("/in", "json", "n int").partitioned_by("day"),
            UsageError,
            "the partition columns 'day' are not in the schema",
        ),
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_only_sources_with_a_count_are_bounded() -> None:
    assert DataGeneratorSource.of(str, Types.STRING(), count=3).bounded
    assert not DataGeneratorSource.of(str, Types.STRING()).bounded


def test_nested_folders_are_read_unless_folders_name_columns() -> None:
    source = FileSource.of("/in", "json", "n int, day string")
    assert source.options["recursiveFileLookup"] == "true"
    assert "recursiveFileLookup" not in source.partitioned_by("day").options
