"""The web page of a job: who may open it, and what a browser is allowed to do with it."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from penstock.model.recent_epoch import EpochPhases, RecentEpoch
from penstock.model.subtask_work import PassedRows, SubtaskFigures
from penstock.rest import page, page_sessions
from penstock.rest.page_sessions import PageSessions
from penstock.testing.clocks import ManualClock
from tests.records import A_ID, job_record
from tests.rest.fake_job import Served

ORIGIN = {"origin": "http://127.0.0.1:8081"}


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def browser(served: Served, scope: str = "admin") -> TestClient:
    """A browser that has opened a one-time link."""
    code = served.client.post("/login-codes", json={"scope": scope}).json()["code"]
    client = TestClient(served.app, base_url="http://127.0.0.1:8081")
    assert client.get(f"/login/{code}").status_code == 200
    return client


def test_a_link_opens_the_page_once(served: Served) -> None:
    code = served.client.post("/login-codes").json()["code"]
    first = TestClient(served.app, base_url="http://127.0.0.1:8081")
    opened = first.get(f"/login/{code}")
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith("penstock-8081=") and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert 'url=/"' in opened.text and code not in opened.text
    assert first.get("/").headers["content-type"].startswith("text/html")
    assert first.get("/jobs").status_code == 200
    second = TestClient(served.app, base_url="http://127.0.0.1:8081")
    assert second.get(f"/login/{code}").status_code == 403
    assert second.get("/jobs").status_code == 401


@pytest.mark.parametrize("other", ['theme={"dark": true}', "a b=1", "list=1, 2", "penstock-80=x", "=", ""])
def test_a_cookie_of_another_server_of_the_host_hides_no_session(served: Served, other: str) -> None:
    code = served.client.post("/login-codes").json()["code"]
    client = TestClient(served.app, base_url="http://127.0.0.1:8081")
    session = client.get(f"/login/{code}").headers["set-cookie"].partition(";")[0]
    for cookies in (f"{other}; {session}", f"{session}; {other}"):
        fresh = TestClient(served.app, base_url="http://127.0.0.1:8081")
        assert fresh.get("/jobs", headers={"cookie": cookies}).status_code == 200, cookies


def test_a_link_is_valid_for_a_minute_and_a_wrong_one_never() -> None:
    clock = ManualClock()
    sessions = PageSessions(clock)
    code = sessions.new_code("read")
    clock.advance(page_sessions.CODE_LIMIT_S * 1000 + 1)
    assert sessions.open(code) is None
    assert sessions.open("wrong") is None
    fresh = sessions.new_code("admin")
    session = sessions.open(fresh)
    assert session is not None and sessions.scope_of(session) == "admin"
    assert sessions.scope_of(fresh) is None


def test_codes_and_sessions_are_limited_in_number() -> None:
    sessions = PageSessions(ManualClock())
    codes = [sessions.new_code("read") for _ in range(page_sessions.MAX_CODES + 1)]
    assert sessions.open(codes[0]) is None
    first = sessions.open(codes[1])
    assert first is not None
    for _ in range(page_sessions.MAX_SESSIONS):
        assert sessions.open(sessions.new_code("read")) is not None
    assert sessions.scope_of(first) is None


def test_without_a_session_there_is_only_a_page_that_says_how_to_get_one(served: Served) -> None:
    client = TestClient(served.app, base_url="http://127.0.0.1:8081")
    closed = client.get("/")
    assert closed.status_code == 401 and "penstock dashboard JOB" in closed.text and "<script" not in closed.text
    for path in ("/static/page.js", "/jobs", "/login-codes"):
        assert client.get(path).status_code == 401
    assert client.get("/jobs", headers={"cookie": "penstock-8081=guess"}).status_code == 401


def test_the_page_loads_nothing_from_elsewhere_and_runs_no_inline_code(served: Served) -> None:
    client = browser(served)
    for name in page.page_files():
        found = client.get(f"/static/{name}")
        assert found.status_code == 200, name
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert name.startswith(("vendor", "icon")) or "://" not in found.text, name
    assert {"index.html", "page.js", "page.css", "vendor/preact.mjs"} <= set(page.page_files())


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/absent.js", "/static/", "/page.js"]
)
def test_no_other_file_can_be_read(served: Served, path: str) -> None:
    assert browser(served).get(path).status_code in (400, 404)


def test_a_change_by_a_browser_needs_the_name_of_its_page(served: Served) -> None:
    client = browser(served)
    path = f"/jobs/{A_ID}/checkpoints"
    assert client.post(path, json={}).status_code == 403
    assert client.post(path, json={}, headers={"origin": "http://127.0.0.1:9999"}).status_code == 403
    assert client.post(path, json={}, headers={**ORIGIN, "sec-fetch-site": "same-site"}).status_code == 403
    assert client.post(path, json={}, headers={**ORIGIN, "sec-fetch-site": "same-origin"}).status_code == 202


def test_a_session_for_reading_changes_nothing(served: Served) -> None:
    client = browser(served, "read")
    assert client.get("/jobs").status_code == 200
    assert client.post(f"/jobs/{A_ID}/checkpoints", json={}, headers=ORIGIN).status_code == 403


def test_another_page_may_lead_to_a_link_and_to_nothing_else(served: Served) -> None:
    code = served.client.post("/login-codes").json()["code"]
    client = TestClient(served.app, base_url="http://127.0.0.1:8081", headers={"sec-fetch-site": "cross-site"})
    assert client.get(f"/login/{code}").status_code == 200
    assert client.get("/").status_code == 403


def test_a_session_of_another_port_of_this_host_is_none_here(served: Served) -> None:
    session = browser(served).cookies["penstock-8081"]
    other = TestClient(served.app, base_url="http://127.0.0.1:8082")
    assert other.get("/jobs", headers={"cookie": f"penstock-8081={session}"}).status_code == 401


A_SUBTASK = SubtaskFigures(
    "s0",
    1,
    50,
    20,
    busy_ms_per_s=700,
    back_pressured_ms_per_s=100,
    idle_ms_per_s=200,
    inputs=[50],
    operators=[PassedRows(50, 20), PassedRows(20, 0)],
)


def test_the_figures_have_the_rates_and_the_last_epochs(served: Served) -> None:
    served.job.committed = [RecentEpoch(7, 1000, 1400, 50, 20, 3, EpochPhases(30, 200, 120, 15, 5, 30))]
    served.job.current = job_record(subtasks=[A_SUBTASK])
    found = served.client.get(f"/jobs/{A_ID}/figures").json()
    assert found["epochs"] == [
        {
            "epoch": 7,
            "started-ms": 1000,
            "committed-ms": 1400,
            "rows-in": 50,
            "rows-out": 20,
            "checkpoint": 3,
            "phases": {
                "scheduling-ms": 30,
                "reading-ms": 200,
                "functions-ms": 120,
                "state-ms": 15,
                "sealing-ms": 5,
                "committing-ms": 30,
            },
        }
    ]
    (subtask,) = found["subtasks"]
    assert (subtask["vertex"], subtask["subtask"], subtask["rows-in"]) == ("s0", 1, 50)
    assert (subtask["busy-ms-per-s"], subtask["back-pressured-ms-per-s"], subtask["idle-ms-per-s"]) == (700, 100, 200)
    assert (subtask["inputs"], subtask["operators"]) == ([50], [[50, 20], [20, 0]])
    assert found["state"] == served.job.current.status and found["rows"] == served.job.current.rows
