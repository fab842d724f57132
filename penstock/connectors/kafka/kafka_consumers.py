"""Reads a range of offsets of one partition: exactly its messages, in order.

A consumer is kept for the next range of its partition, so what it has fetched ahead is used. Transactions leave gaps in
the offsets: a range may end in offsets that no message has, and then the consumer's own position shows its end.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connectors.kafka import client
from penstock.errors import ConnectorUnavailableError, RecordsLostError

MESSAGES_PER_CALL = 500
"""Fewer than make Python look for garbage, which takes longer than the messages themselves."""
FEW_MESSAGES = 1_000
WAIT_S, SHORT_WAIT_S = 0.1, 0.01
"""For a number of messages; when few are expected, the rest may be markers, which nobody delivers."""
STALL_TIMEOUT_S = 120.0
KEPT_CONSUMERS = 8
"""Consumers kept in one process; each may hold messages of `queued.max.messages.kbytes`."""
SETTINGS = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "5",
    "fetch.wait.max.ms": "100",
    "fetch.message.max.bytes": "4194304",
    "queued.min.messages": "100000",
    "queued.max.messages.kbytes": "32768",
}
END_OF_PARTITION = "_PARTITION_EOF"


@dataclass(frozen=True)
class KafkaRange:
    """Offsets start … end - 1 of a partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end - 1} of partition {self.partition} of topic {self.topic!r}"


class PartitionConsumer:
    """Reads one partition. Messages beyond the end of a range are kept for the next one."""

    def __init__(self, settings: Mapping[str, Any], topic: str, partition: int) -> None:
        self._consumer = client.open_consumer(settings)
        self._topic = topic
        self._partition = partition
        self._ahead: list[Any] = []
        self._reached = -1
        """Every message below this offset was delivered or is in `_ahead`."""
        self.position: int | None = None
        """Where the next range must begin so that no seek is needed."""

    def read(self, wanted: KafkaRange) -> Iterator[list[Any]]:
        """The messages of the range, in lists."""
        if self.position != wanted.start:
            self._seek(wanted.start)
        self.position = None  # unknown until the range has been read to its end
        progress_s = time.monotonic()
        while True:
            messages = self._take_until(wanted.end)
            if messages:
                yield messages
                progress_s = time.monotonic()
            if self._ahead or self._reached >= wanted.end:
                break
            if self._fetch(wanted):
                progress_s = time.monotonic()
            elif time.monotonic() - progress_s > STALL_TIMEOUT_S:
                raise ConnectorUnavailableError(f"{wanted}: the broker has sent nothing for {STALL_TIMEOUT_S:.0f} s")
        self.position = wanted.end

    def close(self) -> None:
        """End the connection."""
        self._consumer.close()

    def _seek(self, offset: int) -> None:
        self._ahead = []
        self._reached = offset
        place = client.topic_partition(self._topic, self._partition, offset)
        client.call(f"topic {self._topic!r}", lambda: self._consumer.assign([place]))

    def _take_until(self, end: int) -> list[Any]:
        """Messages at hand below `end`; the others stay."""
        ahead = self._ahead
        if ahead and ahead[-1].offset() >= end:
            count = next(index for index, message in enumerate(ahead) if message.offset() >= end)
            self._ahead = ahead[count:]
            return ahead[:count]
        self._ahead = []
        return ahead

    def _fetch(self, wanted: KafkaRange) -> bool:
        """Wait for messages, not much longer than needed. Whether there was any progress."""
        left = max(1, wanted.end - self._reached)
        wait_s = SHORT_WAIT_S if left < FEW_MESSAGES else WAIT_S
        received = client.call(str(wanted), lambda: self._consumer.consume(min(left, MESSAGES_PER_CALL), wait_s))
        messages = [message for message in received if message.error() is None]
        if len(messages) < len(received):
            for message in received:
                if message.error() is not None:
                    self._handle(message, wanted)
        if messages:
            self._ahead = messages
            self._reached = max(self._reached, int(messages[-1].offset() or 0) + 1)
        return bool(messages)

    def _handle(self, event: Any, wanted: KafkaRange) -> None:
        """Handle what the client reports instead of a message: the end of the partition, or an error."""
        error = event.error()
        if client.error_name(error) == END_OF_PARTITION:
            self._reached = max(self._reached, event.offset())
            return
        failure = client.translated(error, str(wanted))
        if isinstance(failure, RecordsLostError):
            raise RecordsLostError(f"{wanted} are gone, probably by the topic's retention: {failure}")
        if not failure.retryable:
            raise failure


_kept: OrderedDict[tuple[Any, ...], PartitionConsumer] = OrderedDict()


def read_messages(settings: Mapping[str, Any], wanted: KafkaRange, *, skip_lost: bool = False) -> Iterator[list[Any]]:
    """The messages of a range, with a consumer that this process keeps. `skip_lost`: begin at the first one left."""
    chosen = {**SETTINGS, **settings, "auto.offset.reset": "earliest" if skip_lost else "error"}
    key = (wanted.topic, wanted.partition, *sorted(chosen.items()))
    consumer = _kept.pop(key, None)
    if consumer is None:
        while len(_kept) >= KEPT_CONSUMERS:
            _kept.popitem(last=False)[1].close()
        consumer = PartitionConsumer(chosen, wanted.topic, wanted.partition)
    try:
        yield from consumer.read(wanted)
    except BaseException:
        consumer.close()
        raise
    _kept[key] = consumer
