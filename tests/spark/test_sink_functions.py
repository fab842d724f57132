"""A SinkFunction on real Spark: it gets every record of its subtask, and `finish` at the end of the input."""

import json
from pathlib import Path
from typing import Any

from penstock.datastream import RuntimeContext, SinkFunction
from tests.spark.jobs import Jobs


class Lines(SinkFunction):
    """One file per subtask, written at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.records: list[Any] = []

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.records.append(value.number)

    def finish(self) -> None:
        (self.folder / f"{self.index}.json").write_text(json.dumps(self.records), encoding="utf-8")


def test_a_sink_function_gets_every_record_and_the_end(jobs: Jobs) -> None:
    folder = jobs.folder / "lines"
    folder.mkdir()
    env = jobs.environment(2)
    numbers = env.from_collection([(number,) for number in range(40)], "number bigint")
    numbers.key_by("number").add_sink(Lines(folder)).name("lines").uid("lines")
    env.execute("lines")
    found = [json.loads((folder / f"{index}.json").read_text(encoding="utf-8")) for index in range(2)]
    assert sorted(number for part in found for number in part) == list(range(40))
