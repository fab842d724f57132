"""`penstock status` of a job on Spark: how large its states are."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.model.descriptors import ValueStateDescriptor
from tests.spark.jobs import Jobs, collect


class Longest(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.word = runtime_context.get_state(ValueStateDescriptor("word", Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.word.update(value.word)
        yield value.name


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_status_of_a_job_says_how_large_its_states_are(
    jobs: Jobs, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    env = jobs.environment(2, {"execution.checkpointing.interval": "1s", "state.backend.type": backend})
    rows = [(f"name-{number:02}", "x" * number) for number in range(1, 41)]
    words = env.from_collection(rows, "name string, word string").key_by("name")
    assert len(collect(words.process(Longest(), output_type=Types.STRING()).uid("longest"))) == 40
    status = ["status", jobs.record().job_id, f"-Dpenstock.registry.dir={jobs.registry.folder}"]
    capsys.readouterr()
    assert main([*status, "--json"]) == 0
    (size,) = [size for size in json.loads(capsys.readouterr().out)["states"] if size["name"] == "word"]
    assert (size["operator_uid"], size["entries"], size["first_key_group"]) == ("longest", 40, 0)
    assert len(size["group_bytes"]) == 128 and sum(size["group_bytes"]) == size["size_bytes"]
    assert [key for key, _ in size["largest"]] == [f"name-{number}" for number in range(40, 30, -1)]
    if backend == "hashmap":
        assert size["size_bytes"] == sum(len(name) + len(word) for name, word in rows)
    assert main(status) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("longest "))
    assert line.split()[:2] == ["longest", "word"] and "name-40 (" in line
