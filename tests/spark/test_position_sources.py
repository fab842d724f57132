"""Iterators with a position, generated records and sockets, read by Spark.

The programs of docs/connectors/ run them every day, without failures.
"""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.connectors.position_sources import IteratorSource, SocketSource
from penstock.datastream import MapFunction
from penstock.datastream.connectors import DataGeneratorSource
from penstock.errors import UnsupportedValueError
from penstock.spark.position_readers import PositionReader
from penstock.spark.python_sources import GeneratorReader
from tests.spark.jobs import Jobs

SETTINGS = {
    "execution.checkpointing.interval": "100ms",
    "penstock.epoch.max-rows": "60",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "0s",
}


def numbers(position: Any) -> Iterator[tuple[int, dict[str, int]]]:
    for n in range(position["next"] if position else 0, 100):
        yield n, {"next": n + 1}


def read(reader: PositionReader, start: Any, end: Any) -> list[int]:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [n for batch in batches for n in batch.column(0).to_pylist()]


def test_a_reader_resumes_at_a_position_and_replays_a_range() -> None:
    source = IteratorSource.of(numbers, Types.LONG())
    reader = PositionReader(source, 30)
    first = reader.latestOffset(reader.initialOffset())
    second = reader.latestOffset(first)
    assert (first, second["records"]) == ({"position": {"next": 30}, "records": 30}, 60)
    assert read(reader, reader.initialOffset(), first) == list(range(30))
    reader.commit(first)
    later = PositionReader(source, 50)
    assert later.latestOffset(second)["records"] == 100
    assert read(later, first, second) == read(reader, first, second) == list(range(30, 60))
    end = {"position": {"next": 100}, "records": 100}
    assert later.latestOffset(end) == end


def test_records_of_a_socket_that_are_not_buffered_are_lost() -> None:
    reader = PositionReader(SocketSource("127.0.0.1", 1), 10)
    assert read(reader, {"position": 3, "records": 3}, {"position": 5, "records": 5}) == []


@pytest.mark.parametrize(
    ("given", "message"), [(3, "it must yield pairs"), ((3, object()), "a position is stored in checkpoints as JSON")]
)
def test_what_an_iterator_may_not_yield(given: Any, message: str) -> None:
    reader = PositionReader(IteratorSource.of(lambda position: iter([given]), Types.LONG()), 10)
    with pytest.raises(UnsupportedValueError, match=message):
        reader.latestOffset(reader.initialOffset())


def test_an_error_of_the_iterator_comes_after_the_records_before_it() -> None:
    def fails(position: Any) -> Iterator[tuple[int, int]]:
        yield 1, 1
        raise OSError("gone")

    reader = PositionReader(IteratorSource.of(fails, Types.LONG()), 10)
    first = reader.latestOffset(reader.initialOffset())
    assert first == {"position": 1, "records": 1}
    with pytest.raises(OSError, match="gone"):
        reader.latestOffset(first)


def test_a_generator_with_a_rate_does_not_run_ahead() -> None:
    source = DataGeneratorSource.of(lambda n: n * n, Types.LONG(), rows_per_second=10)
    reader = GeneratorReader(source, 1000)
    assert reader.latestOffset({"records": 40}) == {"records": 50}  # what is due in the first second
    batches = [batch for part in reader.partitions({"records": 3}, {"records": 6}) for batch in reader.read(part)]
    assert batches[0].column(0).to_pylist() == [9, 16, 25]


class FailsOnce(MapFunction):
    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def map(self, value: int) -> int:
        if value == 70 and not self.flag.exists():
            self.flag.touch()
            raise ValueError("the first time")
        return value


@pytest.mark.full
def test_q4_an_iterator_and_a_generator_continue_at_their_positions_after_a_failure(jobs: Jobs) -> None:
    env = jobs.environment(1, SETTINGS)
    squares = DataGeneratorSource.of(lambda n: 1000 + n, Types.LONG(), count=50)
    generated = env.from_source(squares, WatermarkStrategy.no_watermarks(), "squares")
    stream = (
        env.from_iterator(numbers, Types.LONG()).union(generated).map(FailsOnce(jobs.folder / "flag"), Types.LONG())
    )
    with stream.execute_and_collect("iterators") as found:  # type: ignore[union-attr]
        assert sorted(found) == [*range(100), *range(1000, 1050)]
    assert jobs.record().attempt == 2


@pytest.mark.full
def test_lines_of_a_socket(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"a\nb\nc\n")
                done.wait(60)

        threading.Thread(target=run, daemon=True).start()
        env = jobs.environment(1, {"execution.checkpointing.interval": "100ms", "penstock.epoch.interval": "100ms"})
        lines = env.socket_text_stream("127.0.0.1", server.getsockname()[1])
        lines.print()
        with lines.map(str.upper, Types.STRING()).execute_and_collect("socket") as found:  # type: ignore[union-attr]
            assert [next(found) for _ in range(3)] == ["A", "B", "C"]
        done.set()
    printed = capsys.readouterr().err
    assert "source 'Socket Stream': lines of 127.0.0.1:" in printed and "are lost in a failure" in printed
