"""The input of the job, and what a batch program makes of it. Plain Python; nothing here is shared with the engine."""

import hashlib
import json
import os
import random
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Load:
    """How much input: `events` lines over `keys` keys, one file per epoch."""

    events: int
    keys: int
    files: int
    seed: int = 1
    repeated: float = 0.2
    """The share of lines that bring an id again, as a source with at-least-once delivery would."""


@dataclass
class Expected:
    """What state and output must be in the end."""

    ids: dict[str, set[int]] = field(default_factory=dict)
    """Key -> ids, each once."""
    sums: dict[str, int] = field(default_factory=dict)
    xors: dict[str, int] = field(default_factory=dict)
    closed: bool = True
    """Whether the input has ended, so that each key has been closed with its totals."""

    def counts(self) -> dict[str, int]:
        """Key -> number of its events."""
        return {key: len(ids) for key, ids in self.ids.items()}


def write_events(load: Load, folder: Path) -> None:
    """The files in which the events are, each whole from the start."""
    folder.mkdir(parents=True)
    lines = list(_lines(load))
    size = -(-len(lines) // load.files)
    for index in range(load.files):
        path = folder / f"events-{index:05}.json"
        path.write_text("".join(lines[index * size : (index + 1) * size]), encoding="utf-8")
        os.utime(path, (1_700_000_000 + index, 1_700_000_000 + index))  # Spark takes files in the order of their times


def _lines(load: Load) -> Iterator[str]:
    chance = random.Random(load.seed)
    fresh = 0
    for _ in range(load.events):
        if fresh and chance.random() < load.repeated:
            number = chance.randrange(fresh)
        else:
            number, fresh = fresh, fresh + 1
        # Key and amount follow from the id, so that a repeated id is the same event.
        event = {"id": number * 7919, "key": f"k{number * 31 % load.keys}", "amount": number % 1000 + 1}
        yield json.dumps(event) + "\n"


def batch_result(folder: Path, only: Set[int] | None = None) -> Expected:
    """The oracle: reads the files, takes every id once. `only`: of a job that was stopped, having seen these."""
    result = Expected(closed=only is None)
    for path in sorted(folder.glob("*.json")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            key, number = event["key"], event["id"]
            if only is not None and number not in only:
                continue
            ids = result.ids.setdefault(key, set())
            if number in ids:
                continue
            ids.add(number)
            result.sums[key] = result.sums.get(key, 0) + event["amount"]
            result.xors[key] = result.xors.get(key, 0) ^ _hash(number)
    return result


def _hash(number: int) -> int:
    digest = hashlib.blake2b(number.to_bytes(8, byteorder="big"), digest_size=8).digest()
    return int.from_bytes(digest, byteorder="big", signed=True)
