"""`to_spark(write, exactly_once=True)`: rows come after their checkpoint, and again only with the same token."""

from pathlib import Path
from typing import Any

from penstock.common import Types
from penstock.datastream import MapFunction
from tests.spark.jobs import Jobs

ROWS = 40


class FailsOnce(MapFunction):
    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def map(self, value: int) -> tuple[int, str]:
        if value == 25 and not self.flag.exists():
            self.flag.touch()
            raise ValueError("the first time")
        return value, "x" * 2000  # too much for the manifest: rows wait in files


class Table:
    """A table of rows and tokens, written in one step; the reply of the first write is lost."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, list[int]]] = []
        self.stored: dict[str, list[int]] = {}

    def write(self, df: Any, epoch: Any) -> None:
        numbers = sorted(row["n"] for row in df.collect())
        assert df.columns == ["n", "text"] and epoch.owner.startswith(f"{epoch.job_id}/")
        self.calls.append((epoch.token, epoch.version, numbers))
        self.stored.setdefault(epoch.token, numbers)
        if len(self.calls) == 1:
            raise ConnectionError("the reply was lost")


def test_q5_a_writer_that_stores_the_token_writes_each_row_once(jobs: Jobs) -> None:
    settings = {
        "execution.checkpointing.interval": "200ms",
        "penstock.epoch.max-rows": "8",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0s",
    }
    env = jobs.environment(settings=settings)
    table = Table()
    stream = env.from_collection(range(ROWS), Types.LONG()).rebalance()
    stream.map(FailsOnce(jobs.folder / "flag"), "n bigint, text string").to_spark(table.write, exactly_once=True)
    env.execute("token")
    assert sorted(n for numbers in table.stored.values() for n in numbers) == list(range(ROWS))
    assert table.calls[0] == table.calls[1]  # the same rows and the same token, after the lost reply
    for token, _, numbers in table.calls:
        assert table.stored[token] == numbers
    versions = [version for _, version, _ in table.calls]
    assert versions == sorted(versions) and jobs.record().attempt == 2
