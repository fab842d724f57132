"""What the broker knows: which partitions a source has, where they begin and end, and where a source starts and stops.

Used by the process that plans epochs, and once by the driver before a job starts. Every request has a time limit.
"""

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.connectors.kafka import client
from penstock.connectors.kafka.kafka_source import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaSource
from penstock.connectors.kafka.partition_offsets import Offsets, Partition, find_lost
from penstock.errors import ConnectorError, ConnectorRefusedError, RecordsLostError

ANSWER_TIMEOUT_S = 30.0
FIRST_ANSWER_TIMEOUT_S = 15.0
"""At the start of a job a wrong address is more likely than a broker that is briefly away."""
NO_TIMESTAMP = -1


class KafkaTopics:
    """The topics of one source on its brokers. Not thread-safe."""

    def __init__(self, source: KafkaSource, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._settings = source.settings
        self._consumer = client.open_consumer(self._settings)
        self._admin = client.open_admin(_admin_settings(self._settings))
        self._known: list[Partition] = []
        self._looked_at_s = float("-inf")

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()

    def partitions(self) -> list[Partition]:
        """The partitions of the source; looked up again after the discovery interval."""
        interval_s = self._source.discovery_s
        age_s = time.monotonic() - self._looked_at_s
        if not self._known or (interval_s is not None and age_s >= interval_s):
            self._known = self._look_up()
            self._looked_at_s = time.monotonic()
        return self._known

    def first_offsets(self, partitions: Iterable[Partition]) -> Offsets:
        """The first record that the broker still has."""
        return self._list_offsets(partitions, "earliest")

    def end_offsets(self, partitions: Iterable[Partition]) -> Offsets:
        """The offset after the last readable record; open transactions are excluded unless the source reads them."""
        return self._list_offsets(partitions, "latest")

    def start_offsets(self) -> Offsets:
        """Where the source starts in each partition."""
        partitions = self.partitions()
        found = self._resolve(self._source.starting, partitions)
        self._require_range(self._source.starting, found, "starting")
        return found

    def stop_offsets(self) -> Offsets | None:
        """Where the source ends in each partition that exists now; None if it does not end."""
        stopping = self._source.stopping
        if stopping is None:
            return None
        found = self._resolve(stopping, self.partitions())
        if self._source.bounded:
            self._require_range(stopping, found, "stopping")
        return found

    def progress(self, start: Offsets) -> tuple[Offsets, Offsets]:
        """For the partitions of `start` that exist: where to read from, and up to where there are records.

        Deleted records are an error; if the source accepts that, it continues at the first one left.
        """
        partitions = set(self.partitions())
        existing = [partition for partition in start if partition in partitions]
        first, end = self.first_offsets(existing), self.end_offsets(existing)
        lost = find_lost(start, first, end)
        if lost and self._source.fail_on_data_loss:
            (topic, partition), reason = next(iter(lost.items()))
            more = f" (and {len(lost) - 1} more partitions)" if len(lost) > 1 else ""
            raise RecordsLostError(
                f"partition {partition} of topic {topic!r}: {reason}{more}; restore the topic, start from a savepoint "
                f"whose offsets exist, or accept the loss with set_fail_on_data_loss(False)"
            )
        return {partition: first[partition] if partition in lost else start[partition] for partition in existing}, end

    def _look_up(self) -> list[Partition]:
        source = self._source
        what = f"{source.description} on {source.servers}"
        topics = client.call(what, lambda: self._consumer.list_topics(timeout=self._timeout_s)).topics
        if source.pattern is not None:
            matches = re.compile(source.pattern).fullmatch
            names = sorted(name for name in topics if matches(name) and not name.startswith("__"))
        else:
            names = sorted({*source.topics, *(partition.topic for partition in source.partitions)})
        missing = [name for name in names if name not in topics or topics[name].error is not None]
        if missing:
            client.raise_refused(
                f"there is no topic {missing[0]!r} on {source.servers}", "create it, or correct its name"
            )
        found = [(name, partition) for name in names for partition in sorted(topics[name].partitions)]
        if not source.partitions:
            return found
        wanted = [(partition.topic, partition.partition) for partition in source.partitions]
        absent = sorted(set(wanted) - set(found))
        if absent:
            count = len(topics[absent[0][0]].partitions)
            client.raise_refused(
                f"topic {absent[0][0]!r} has {count} partitions, and no partition {absent[0][1]}", "correct its number"
            )
        return wanted

    def _resolve(self, initializer: KafkaOffsetsInitializer, partitions: list[Partition]) -> Offsets:
        if initializer.kind in ("earliest", "latest"):
            return self._list_offsets(partitions, initializer.kind)
        if initializer.kind == "timestamp":
            found = self._list_offsets(partitions, initializer.timestamp_ms)
            later = [partition for partition, offset in found.items() if offset == NO_TIMESTAMP]
            return {**found, **self.end_offsets(later)}
        given = {(of.topic, of.partition): offset for of, offset in initializer.given.items()}
        self._require_known(given, partitions)
        others = [partition for partition in partitions if partition not in given]
        return {**{p: given[p] for p in partitions if p in given}, **self._committed(others, initializer.reset)}

    def _committed(self, partitions: list[Partition], reset: KafkaOffsetResetStrategy) -> Offsets:
        """The group's offsets; by `reset` where it has none."""
        found: Offsets = {}
        group = self._source.group_id
        if partitions and group is not None:
            asked = [client.topic_partition(*partition) for partition in partitions]
            what = f"the committed offsets of group {group!r}"
            answers = client.call(what, lambda: self._consumer.committed(asked, timeout=self._timeout_s))
            found = {(a.topic, a.partition): a.offset for a in answers if a.offset >= 0}
        left = [partition for partition in partitions if partition not in found]
        if left and reset is KafkaOffsetResetStrategy.NONE:
            topic, partition = left[0]
            client.raise_refused(
                f"group {group!r} has no committed offset for partition {partition} of topic {topic!r}",
                "commit one, or name a KafkaOffsetResetStrategy",
            )
        return {**found, **self._list_offsets(left, reset.name.lower())} if left else found

    def _require_known(self, given: Mapping[Partition, int], partitions: list[Partition]) -> None:
        unknown = sorted(set(given) - set(partitions))
        if unknown:
            raise ConnectorRefusedError(
                f"an offset is given for partition {unknown[0][1]} of topic {unknown[0][0]!r}, which the source does "
                f"not read: it reads {self._source.description} with {len(partitions)} partitions"
            )

    def _require_range(self, initializer: KafkaOffsetsInitializer, found: Offsets, which: str) -> None:
        """Refuse offsets of the program or the group that the broker does not have."""
        if initializer.kind not in ("offsets", "committed"):
            return
        first, end = self.first_offsets(found), self.end_offsets(found)
        for (topic, partition), offset in sorted(found.items()):
            low, high = first[topic, partition], end[topic, partition]
            if not low <= offset <= high:
                raise ConnectorRefusedError(
                    f"the {which} offset {offset} of partition {partition} of topic {topic!r} is not between {low} and "
                    f"{high}, which is what the broker has; correct it"
                )

    def _list_offsets(self, partitions: Iterable[Partition], which: str | int) -> Offsets:
        asked = sorted(partitions)
        if not asked:
            return {}
        is_committed = self._settings["isolation.level"] == "read_committed"
        answers = client.list_offsets(self._admin, asked, which, self._timeout_s, committed_only=is_committed)
        return dict(zip(asked, answers, strict=True))


def check_source(source: KafkaSource, *, first: bool) -> None:
    """Raise unless the brokers answer and have the topics. `first`: do not wait, this is the job's first start."""
    topics = KafkaTopics(source, FIRST_ANSWER_TIMEOUT_S)
    try:
        client.list_topics(_admin_settings(source.settings), FIRST_ANSWER_TIMEOUT_S)  # says if a password is wrong
        topics.partitions()
        if first:
            topics.start_offsets()
            topics.stop_offsets()
    except ConnectorError as error:
        if first and error.retryable:
            raise ConnectorRefusedError(
                f"{error}; nothing was started: check the address {source.servers!r} and that the broker runs"
            ) from error
        raise
    finally:
        topics.close()


def _admin_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those that only consumers know."""
    consumers = ("group.", "isolation.", "auto.", "fetch.", "queued.", "enable.", "session.", "max.", "check.")
    return {name: value for name, value in settings.items() if not name.startswith(consumers)}
