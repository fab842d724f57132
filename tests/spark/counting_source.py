"""A data source in Python that can be replayed: numbers, so many at a time, by their offset."""

from collections.abc import Iterator, Sequence

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

STEP = 50


class Numbers(InputPartition):
    """start … end - 1."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class CountingReader(DataSourceStreamReader):
    """Two partitions per batch; every look finds some more."""

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        self.seen = getattr(self, "seen", -STEP) + STEP
        return {"next": self.seen}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self.seen = max(getattr(self, "seen", 0), end["next"])  # after a restart it goes on from there
        middle = (start["next"] + end["next"]) // 2
        return [Numbers(start["next"], middle), Numbers(middle, end["next"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, Numbers)
        for number in range(partition.start, partition.end):
            yield (number,)


class CountingSource(DataSource):
    """`spark.readStream.format("counting")`."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "value bigint"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return CountingReader()
