"""Positions in partitions, computed without a broker: what the next epoch reads, and why it may not be readable.

An offset names the next record to read. As JSON, positions have the form of Spark's own Kafka source,
`{"orders": {"0": 5, "1": 7}}`, so either source can continue a checkpoint of the other.
"""

import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import CheckpointCorruptError

Partition = tuple[str, int]
Offsets = dict[Partition, int]


def to_json_form(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, as Spark logs them.

    >>> to_json_form({("b", 0): 1, ("a", 10): 3, ("a", 2): 2})
    {'a': {'2': 2, '10': 3}, 'b': {'0': 1}}
    """
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def from_json_form(topics: Any) -> Offsets:
    """The offsets in a logged position."""
    try:
        return {
            (topic, int(partition)): int(offset) for topic, of in topics.items() for partition, offset in of.items()
        }
    except (AttributeError, ValueError, TypeError) as error:
        found = json.dumps(topics)[:200]
        raise CheckpointCorruptError("source position", "offsets by topic and partition", found) from error


def limit_end(start: Mapping[Partition, int], available: Mapping[Partition, int], max_rows: int | None) -> Offsets:
    """The end of the next epoch: what is available, or about `max_rows` of it.

    Each partition gets a part in proportion to what it has left, so that all of them reach the end together and no
    partition's event time runs ahead of the others. A partition that has anything gets at least one record.

    >>> limit_end({("t", 0): 0, ("t", 1): 10}, {("t", 0): 900, ("t", 1): 110}, 100)
    {('t', 0): 90, ('t', 1): 20}
    """
    left = {partition: max(0, end - start[partition]) for partition, end in available.items()}
    total = sum(left.values())
    if max_rows is None or total <= max_rows:
        return {partition: start[partition] + count for partition, count in left.items()}
    return {
        partition: start[partition] + (max(1, max_rows * count // total) if count else 0)
        for partition, count in left.items()
    }


def within_stops(available: Mapping[Partition, int], stops: Mapping[Partition, int] | None) -> Offsets:
    """What is available, but not beyond where the source ends. A bounded source ignores partitions added later."""
    if stops is None:
        return dict(available)
    return {partition: min(end, stops[partition]) for partition, end in available.items() if partition in stops}


def find_lost(
    start: Mapping[Partition, int], first: Mapping[Partition, int], end: Mapping[Partition, int]
) -> dict[Partition, str]:
    """Why a partition cannot be read from its position on; `first` and `end` are what the broker has.

    >>> find_lost({("t", 0): 5}, {("t", 0): 8}, {("t", 0): 20})
    {('t', 0): 'records 5 to 7 were deleted before they were read'}
    """
    found = {}
    for partition, offset in sorted(start.items()):
        if partition not in first:
            found[partition] = f"the partition no longer exists; its next record was {offset}"
        elif offset < first[partition]:
            found[partition] = f"records {offset} to {first[partition] - 1} were deleted before they were read"
        elif offset > end[partition]:
            found[partition] = (
                f"its next record is {offset}, but the partition ends at {end[partition]}: the topic was created again "
                f"or cut"
            )
    return found
