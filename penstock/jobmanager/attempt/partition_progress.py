"""How far event time has got in a source: of its partitions the slowest one counts, and idle ones do not count."""

from collections.abc import Mapping

from penstock.graph.job_graph import WatermarkGenerator, partition_key


class PartitionProgress:
    """When the time of each partition last advanced, in the epochs' `now`."""

    def __init__(self, started_ms: int) -> None:
        """`started_ms`: of the attempt. A restored partition has until then its whole time to get a record."""
        self._started_ms = started_ms
        self._advanced_ms: dict[str, int] = {}

    def advanced(self, key: str, now_ms: int) -> None:
        """A greater timestamp of this partition has arrived."""
        self._advanced_ms[key] = now_ms

    def timestamp(self, generator: WatermarkGenerator, newest: Mapping[str, int], now_ms: int) -> int | None:
        """The timestamp that the watermark follows; None before the first record, and if every partition is idle.

        A partition counts from its first record on.
        """
        if not generator.by_partition:
            return newest.get(generator.uid)
        prefix = partition_key(generator.uid, "")
        times = [
            time
            for key, time in newest.items()
            if key.startswith(prefix) and not self._is_idle(key, generator.idle_after_ms, now_ms)
        ]
        return min(times, default=None)

    def is_idle(self, generator: WatermarkGenerator, newest: Mapping[str, int], now_ms: int) -> bool:
        """Return whether no record has advanced the time of the whole source for as long as its strategy says."""
        prefix = partition_key(generator.uid, "")
        keys = [key for key in newest if key.startswith(prefix)] if generator.by_partition else []
        return all(self._is_idle(key, generator.idle_after_ms, now_ms) for key in keys or [generator.uid])

    def _is_idle(self, key: str, idle_after_ms: int | None, now_ms: int) -> bool:
        since_ms = self._advanced_ms.get(key, self._started_ms)
        return idle_after_ms is not None and now_ms - since_ms >= idle_after_ms
