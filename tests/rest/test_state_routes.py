"""The endpoints for keyed state: the list, look-ups with any token, queries by name, and their limits."""

from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.common import Types
from penstock.control.state_query import MAX_KEY_BYTES, MAX_KEYS, not_ready
from penstock.model.descriptors import ListStateDescriptor, ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction
from penstock.model.snapshot import StateSize, StateTableInfo
from penstock.model.type_information import list_of
from penstock.model.types import resolve_type
from penstock.runtime.process.messages import LiveState
from penstock.storage.storage import open_storage
from penstock.testing import CHECKPOINT, Harness
from tests.records import job_record
from tests.rest.fake_job import JOB, READ, FakeJob, Served

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()]).text
QUERIES = JOB + "/queries"
TOTALS = LiveState(StateTableInfo("sums", "total", "value", ["STRING"], "DOUBLE"), 0, "totals")
COUNTS = LiveState(StateTableInfo("sums", "count", "value", ["LONG"], PAIR, ttl=True), 60_000)
WINDOWS = LiveState(StateTableInfo("w", "sum", "reducing", ["STRING"], "LONG", namespace_type=PAIR), 0, "windows")
PICKLED = LiveState(StateTableInfo("sums", "any", "value", ["STRING"], Types.PICKLED_BYTE_ARRAY().text))


@pytest.fixture
def served(tmp_path: Path) -> Served:
    served = Served(tmp_path)
    served.job.queries.known = [TOTALS, COUNTS, WINDOWS, PICKLED]
    return served


def refused(response: Any, status: int, code: str) -> str:
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    return str(response.json()["errors"][0])


def test_the_list_has_types_sizes_and_times_to_live(served: Served) -> None:
    served.job.queries.known_sizes = [
        StateSize("sums", "total", 3, 120, entries_exact=True, bytes_exact=False, largest=[("ada", 60)]),
        StateSize("sums", "count", 1, 9, entries_exact=True, bytes_exact=True, group_bytes=[9], largest=[("ada", 9)]),
    ]
    response = served.client.get(JOB + "/state", headers=READ)
    states = {(state["operator"], state["state"]): state for state in response.json()["states"]}
    assert states["sums", "total"] == {
        "operator": "sums",
        "state": "total",
        "queryable": "totals",
        "kind": "value",
        "key-type": "STRING",
        "key-types": ["STRING"],
        "namespace-type": None,
        "map-key-type": None,
        "value-type": "DOUBLE",
        "ttl-ms": None,
        "entries": 3,
        "entries-exact": True,
        "size-bytes": 120,
        "size-exact": False,
        "group-bytes": [],
        "largest": [["ada", 60]],
    }
    count = states["sums", "count"]
    assert (count["ttl-ms"], count["value-type"], count["entries"], count["queryable"]) == (60_000, "LONG", 1, None)
    assert (count["group-bytes"], count["largest"]) == ([9], [])  # keys of a state that is not queryable are not shown
    (admin,) = (one for one in served.client.get(JOB + "/state").json()["states"] if one["state"] == "count")
    assert admin["largest"] == [["ada", 9]]


def test_r2_a_query_names_a_published_state(served: Served) -> None:
    response = served.client.post(QUERIES, json={"state": "totals", "keys": ["ada", "bob"]}, headers=READ)
    assert response.status_code == 200, response.text
    found = response.json()
    assert found["values"] == ["ada", "bob"]
    assert (found["consistency"], found["epoch"], found["checkpoint"]) == ("committed", 7, None)
    assert (found["key-type"], found["value-type"], found["kind"]) == ("STRING", "DOUBLE", "value")


def test_a_scan_has_a_limit(served: Served) -> None:
    found = served.client.post(QUERIES, json={"state": "totals", "limit": 1}, headers=READ).json()
    assert (found["entries"], found["more"]) == ([["ada", 5.0]], True)


def test_s14_only_published_states_can_be_queried(served: Served) -> None:
    for name in ("total", "count", "any", ""):
        refused(served.client.post(QUERIES, json={"state": name, "keys": ["a"]}, headers=READ), 404, "NO_STATE")
    path = JOB + "/state/sums/count?key=5"
    refused(served.client.get(path, headers=READ), 403, "FORBIDDEN")
    refused(served.client.post(JOB + "/state/sums/count", json={"keys": [5]}, headers=READ), 403, "FORBIDDEN")
    named = {"operator": "sums", "state": "count", "keys": [5]}
    refused(served.client.post(JOB + "/state", json=named, headers=READ), 403, "FORBIDDEN")
    assert served.client.get(path).json()["values"] == [5]
    assert served.client.post(JOB + "/state", json=named).json()["values"] == [5]
    assert served.client.get(JOB + "/state/sums/total?key=ada", headers=READ).json()["values"] == ["ada"]


def test_r9_queries_that_are_wrong_are_refused(served: Served) -> None:
    def post(body: Any) -> Any:
        return served.client.post(QUERIES, json=body, headers=READ)

    refused(post({"state": "nobody", "keys": ["a"]}), 404, "NO_STATE")
    refused(post({"state": "totals"}), 400, "BAD_REQUEST")
    refused(post({"state": "totals", "keys": ["a"], "limit": 3}), 400, "BAD_REQUEST")
    refused(post({"state": "totals", "limit": 10_001}), 400, "LIMIT_TOO_LARGE")
    refused(post({"state": "totals", "keys": ["a"] * (MAX_KEYS + 1)}), 413, "TOO_MANY_KEYS")
    refused(post({"state": "totals", "keys": ["a" * MAX_KEY_BYTES]}), 413, "KEY_TOO_LARGE")
    refused(post({"state": "totals", "keys": ["a"], "consistency": "live"}), 400, "BAD_REQUEST")
    refused(post({"state": "totals", "keys": "a"}), 400, "BAD_REQUEST")
    refused(served.client.get(JOB + "/state/sums/count?key=five"), 400, "WRONG_KEY_TYPE")
    refused(served.client.get(JOB + "/state/sums/total"), 400, "BAD_REQUEST")
    refused(served.client.get(JOB + "/state/sums/nothing?key=a"), 404, "NO_STATE")
    refused(served.client.get(JOB + "/state/sums/total?key=a&namespace=1"), 400, "NO_NAMESPACES")
    refused(served.client.get(JOB + "/state/sums/total?key=a&consistency=live"), 400, "BAD_REQUEST")
    assert served.job.queries.asked == []


def test_a_pickled_state_is_never_read(served: Served) -> None:
    assert "pickles" in refused(served.client.get(JOB + "/state/sums/any?key=a"), 400, "NOT_READABLE")


def test_the_key_of_a_state_is_no_token(served: Served) -> None:
    assert served.client.get(JOB + "/state/sums/total?key=token").status_code == 200
    refused(served.client.get(JOB + "/state/sums/total?api_key=x"), 401, "UNAUTHORIZED")
    refused(served.client.get(JOB + "/status?key=x"), 400, "BAD_REQUEST")
    refused(served.client.get(JOB + "/state", headers={"Authorization": "Bearer x"}), 401, "UNAUTHORIZED")


def test_a_window_is_a_namespace(served: Served) -> None:
    response = served.client.get(JOB + "/state/w/sum?key=ada&namespace=[0, 5000]")
    assert response.status_code == 200, response.text
    assert served.job.queries.asked[-1].namespace == b'{"$tuple":[0,5000]}'


def test_a_job_that_cannot_answer_says_when_to_ask_again(served: Served) -> None:
    served.job.queries.problem = not_ready("the job is RESTARTING")
    response = served.client.post(QUERIES, json={"state": "totals", "keys": ["ada"]}, headers=READ)
    assert "RESTARTING" in refused(response, 503, "NOT_READY")
    assert response.headers["retry-after"] == "1"


class RunningTotal(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self.names = ctx.get_list_state(ListStateDescriptor("names"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0.0) + value[1])
        self.names.add(value)
        yield value


@pytest.fixture
def checkpointed(tmp_path: Path) -> Served:
    """A job with a checkpoint on disk, and a savepoint."""
    folder = tmp_path / "checkpoints"
    harness = Harness.keyed(
        RunningTotal(), key=lambda record: record[0], key_type=Types.STRING(), storage=open_storage(str(folder))
    )
    harness.feed([("ada", 2.0), ("ada", 3.0), CHECKPOINT, ("ada", 1.0)])
    job = FakeJob()
    job.savepoints = [CheckpointStats(2, "completed", 0, path=harness.savepoint(tmp_path / "savepoints"))]
    job.checkpoint_dir = str(folder)
    job.queries.known = [
        LiveState(StateTableInfo("function", "total", "value", ["STRING"], "DOUBLE"), 0, "totals"),
        LiveState(StateTableInfo("function", "names", "list", ["STRING"], list_of(resolve_type(None)).text)),
    ]
    manifest = harness.manifest
    assert manifest is not None
    job.current = job_record(last_checkpoint=manifest.checkpoint_id)
    (tmp_path / "log").mkdir()
    return Served(tmp_path / "log", job)


def test_a_query_may_ask_for_the_newest_checkpoint(checkpointed: Served) -> None:
    number = checkpointed.job.current.last_checkpoint
    body = {"state": "totals", "keys": ["ada", "bob"], "consistency": "checkpointed"}
    found = checkpointed.client.post(QUERIES, json=body, headers=READ).json()
    assert (found["values"], found["consistency"], found["checkpoint"]) == ([6.0, None], "checkpointed", number)
    scanned = checkpointed.client.post(QUERIES, json={"state": "totals", "limit": 5, "consistency": "checkpointed"})
    assert (scanned.json()["entries"], scanned.json()["more"]) == ([["ada", 6.0]], False)


def test_a_key_can_be_looked_up_in_the_snapshots_of_the_job_only(checkpointed: Served, tmp_path: Path) -> None:
    path = JOB + "/state/function/names"
    savepoint = checkpointed.job.savepoints[0].path
    found = checkpointed.client.post(path, json={"keys": ["ada"], "savepoint": savepoint}).json()
    assert found["values"] == [[{"$tuple": ["ada", 2.0]}, {"$tuple": ["ada", 3.0]}, {"$tuple": ["ada", 1.0]}]]
    number = checkpointed.job.current.last_checkpoint
    assert checkpointed.client.get(f"{path}?key=ada&checkpoint={number}").json()["checkpoint"] == number
    for other in ("/etc", str(tmp_path / "checkpoints" / "chk-1"), "../x"):
        refused(checkpointed.client.post(path, json={"keys": ["ada"], "savepoint": other}), 404, "SNAPSHOT_GONE")
    refused(checkpointed.client.get(path + "?key=ada&checkpoint=99"), 404, "SNAPSHOT_GONE")


def test_a_job_without_a_checkpoint_says_so(served: Served) -> None:
    path = JOB + "/state/sums/total?key=ada&consistency=checkpointed"
    refused(served.client.get(path), 503, "NO_CHECKPOINT_YET")
    served.job.current = job_record(last_checkpoint=9)
    refused(served.client.get(path), 503, "BUSY")
