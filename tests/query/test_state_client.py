"""The client of queries against a control server on a real socket, and the command `penstock query`."""

import json
import socket
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.cli.main import main
from penstock.common import Row, Types
from penstock.control.remote_job import ServerAddress
from penstock.control.state_query import StateAnswer, StateQuery, not_ready
from penstock.errors import JobNotFoundError, NotReachableError, QueryRetryError, UsageError
from penstock.model.snapshot import StateTableInfo
from penstock.query import StateClient, connect
from penstock.query.answer_values import decode_answer, table_of_entries
from penstock.query.http_calls import HttpCalls
from penstock.rest.rest_settings import RestSettings
from penstock.rest.server import ControlServer
from penstock.runtime.process.messages import LiveState
from tests.records import A_ID
from tests.rest.fake_job import TOKENS, FakeJob, FakeQueries, Served

TOTALS = LiveState(StateTableInfo("sums", "total", "value", ["STRING"], "DOUBLE"), 0, "totals")
COUNTS = LiveState(StateTableInfo("sums", "count", "value", ["LONG"], "LONG"), 0, "counts")


class BusyQueries(FakeQueries):
    """Answers only the last of several equal queries."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.known = [TOTALS, COUNTS]
        self.refusals = refusals

    def read(self, state: LiveState, query: StateQuery) -> StateAnswer:
        self.refusals -= 1
        if self.refusals >= 0:
            raise not_ready("the job is RESTARTING")
        return super().read(state, query)


@pytest.fixture
def job() -> FakeJob:
    job = FakeJob()
    job.queries.known = [TOTALS, COUNTS]
    return job


@pytest.fixture
def server(tmp_path: Path, job: FakeJob) -> Iterator[ControlServer]:
    server = ControlServer(RestSettings())
    server.start(Served(tmp_path, job).app)
    yield server
    server.close()


@pytest.fixture
def client(server: ControlServer) -> Iterator[StateClient]:
    with connect("totals", server=server.address, token=TOKENS.read, retry_s=0) as client:
        yield client


def test_r2_values_come_in_the_order_of_the_keys(client: StateClient, job: FakeJob) -> None:
    assert client.get("totals", "ada") == "ada"
    assert client.get_many("totals", ["ada", "bob"]) == ["ada", "bob"]
    assert client.get_many("totals", []) == []
    found = client.read("totals", [(1, "x"), datetime(2026, 1, 1, tzinfo=timezone.utc), Row(a=1), b"\0", 2**70])
    assert found.values == [(1, "x"), datetime(2026, 1, 1, tzinfo=timezone.utc), Row(a=1), b"\0", 2**70]
    assert (found.epoch, found.checkpoint) == (7, None)


def test_many_keys_are_asked_for_in_parts(client: StateClient, job: FakeJob) -> None:
    keys = [f"k{number}" for number in range(2_500)]
    assert client.get_many("totals", keys) == keys
    assert [len(query.keys) for query in job.queries.asked] == [1_000, 1_000, 500]


def test_a_scan_is_an_arrow_table(client: StateClient) -> None:
    found = client.scan("totals", limit=1)
    assert found.to_pylist() == [{"key": "ada", "value": 5.0}]
    assert found.schema.field("value").type == pa.float64()
    assert (found.schema.metadata[b"epoch"], found.schema.metadata[b"more"]) == (b"7", b"true")


def test_a_scan_keeps_declared_types_and_writes_untyped_values_as_json() -> None:
    pair = Types.TUPLE([Types.LONG(), Types.LONG()]).text
    answer: dict[str, Any] = {"consistency": "committed", "epoch": 1, "kind": "map", "key-type": "LONG"}
    answer |= {"namespace-type": pair, "map-key-type": "STRING", "value-type": "LONG"}
    answer |= {"entries": [[1, {"$tuple": [0, 5]}, {"x": 2}]]}
    table = table_of_entries(decode_answer(json.dumps(answer).encode()))
    assert table.column_names == ["key", "namespace", "value"]
    assert table["value"].to_pylist() == [[("x", 2)]] and table["key"].type == pa.int64()
    answer |= {"kind": "value", "namespace-type": None, "map-key-type": None, "value-type": "PICKLED_BYTE_ARRAY"}
    answer |= {"value-type": Types.PICKLED_BYTE_ARRAY().text, "key-type": "LONG", "entries": []}
    assert len(table_of_entries(decode_answer(json.dumps(answer).encode()))) == 0


def test_the_retry_answer_is_an_error_of_its_own(client: StateClient, job: FakeJob) -> None:
    job.queries = BusyQueries(1)
    with pytest.raises(QueryRetryError, match="RESTARTING") as error:
        client.get("totals", "ada")
    assert (error.value.code, error.value.retry_after_s, error.value.retryable) == ("NOT_READY", 1, True)


def test_the_client_asks_again_while_the_job_recovers(server: ControlServer, job: FakeJob) -> None:
    job.queries = BusyQueries(1)
    with connect("totals", server=server.address, token=TOKENS.read) as patient:
        assert patient.get("totals", "ada") == "ada"


def test_wrong_queries_and_servers_are_refused(client: StateClient, server: ControlServer) -> None:
    with pytest.raises(UsageError, match="queryable as 'nobody'"):
        client.get("nobody", "ada")
    with pytest.raises(UsageError, match="10000"):
        client.scan("totals", limit=20_000)
    with pytest.raises(NotReachableError, match="refused access"):
        connect("totals", server=server.address, token="wrong")
    with pytest.raises(JobNotFoundError):
        connect("other", server=server.address, token=TOKENS.read)
    with pytest.raises(NotReachableError, match="needs a token"):
        connect("totals", server=server.address)
    with pytest.raises(UsageError, match="give server="):
        connect("totals", token="x")
    server.close()
    with pytest.raises(NotReachableError, match="does not answer"):
        client.get("totals", "ada")


def test_the_command_prints_values_and_entries(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKENS.read)

    def query(*arguments: str) -> tuple[int, str]:
        code = main(["query", "-m", server.address, *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    assert query("totals", "totals", "--key", "ada")[1].split() == ["KEY", "VALUE", "ada", "'ada'"]
    code, text = query(A_ID[:8], "counts", "--key", "5", "--key", "6", "--json")
    assert code == 0 and [entry["value"] for entry in json.loads(text)["values"]] == [5, 6]
    code, text = query("totals", "totals", "--limit", "1")
    assert code == 0 and "ada" in text and "more entries" in text
    for arguments, why in (
        (("totals",), "Missing STATE"),
        ((), "Missing JobID"),
        (("totals", "counts", "--key", "five"), "not a key of type LONG"),
        (("totals", "nobody", "--key", "a"), "queryable are: 'counts', 'totals'"),
        (("totals", "totals", "--key", "a", "--limit", "3"), "--limit is for a scan"),
        (("totals", "totals", "--consistency", "live"), "not committed or checkpointed"),
    ):
        code, text = query(*arguments)
        assert code == 2 and why in text and "Traceback" not in text, text


def test_a_server_that_falls_silent_on_an_open_connection_is_not_reachable() -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def answer_once() -> None:
        connection, _ = listening.accept()
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        silent.wait(5)
        connection.close()

    silent = threading.Event()
    server = threading.Thread(target=answer_once)
    server.start()
    calls = HttpCalls(ServerAddress(f"http://127.0.0.1:{listening.getsockname()[1]}", "token"), 0.2)
    assert calls.post("/jobs/x/queries", b"{}") == b"{}"
    with pytest.raises(NotReachableError, match="does not answer"):
        calls.post("/jobs/x/queries", b"{}")
    silent.set()
    server.join()
    listening.close()
    calls.close()
