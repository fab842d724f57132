"""The page of all jobs: what it lists, what it says of one, and where it leads."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from penstock.control.registry import FailureRecord, ProcessRecord, Registry, StatusChange
from penstock.control.tokens import Scope, Tokens
from penstock.errors import NotReachableError
from penstock.rest.access import Access
from penstock.rest.dashboard import DashboardApp
from tests.records import A_ID, B_ID, NO_PID, job_record

BASE = "http://127.0.0.1:8081"
ORIGIN = {"origin": BASE}


class Served:
    """The application, and a browser that has opened its link."""

    def __init__(self, folder: Path) -> None:
        self.registry = Registry(folder)
        self.asked: list[tuple[str, Scope]] = []
        self.access = Access(Tokens.new(), frozenset({"127.0.0.1"}))
        self.app = DashboardApp(self.registry, self.access, self.link_to)
        self.stranger = TestClient(self.app, base_url=BASE)
        self.browser = TestClient(self.app, base_url=BASE)
        assert self.browser.get(f"/login/{self.access.sessions.new_code('read')}").status_code == 200

    def link_to(self, job_id: str, scope: Scope) -> str:
        if job_id != A_ID:
            raise NotReachableError("its driver is gone")
        self.asked.append((job_id, scope))
        return "http://127.0.0.1:9999/login/once"


@pytest.fixture
def served(tmp_path: Path) -> Served:
    served = Served(tmp_path)
    processes = [ProcessRecord(1, "here", "driver")]
    served.registry.write(job_record(rest="http://127.0.0.1:9999", processes=processes))
    served.registry.write(
        job_record(
            job_id=B_ID,
            name="nightly",
            status="FAILED",
            pid=NO_PID,
            ended_ms=1_700_000_009_000,
            failure="no disk",
            failures=[FailureRecord(5, 1, "StorageError", "no disk")],
            transitions=[StatusChange("FAILED", 9)],
        )
    )
    return served


def test_it_lists_jobs_that_run_before_those_that_have_ended(served: Served) -> None:
    jobs = served.browser.get("/registry").json()["jobs"]
    assert [(job["name"], job["status"], job["has-page"]) for job in jobs] == [
        ("totals", "RUNNING", True),
        ("nightly", "FAILED", False),
    ]


def test_a_job_that_has_ended_still_says_why(served: Served) -> None:
    job = served.browser.get(f"/registry/{B_ID}").json()
    assert (job["failure"], job["failures"][0]["error"], job["checkpoints"]) == ("no disk", "StorageError", [])
    assert job["transitions"] == [{"status": "FAILED", "at_ms": 9}]
    assert served.browser.get("/registry/" + "f" * 32).status_code == 404


def test_the_checkpoints_that_the_job_log_retains_or_why_they_cannot_be_read(served: Served, tmp_path: Path) -> None:
    served.registry.write(job_record(checkpoint_dir=str(tmp_path / "absent")))
    assert "there is no folder" in served.browser.get(f"/registry/{A_ID}").json()["problem"]


def test_it_leads_to_the_page_of_a_running_job_with_the_rights_of_its_reader(served: Served) -> None:
    answer = served.browser.post(f"/registry/{A_ID}/link", headers=ORIGIN)
    assert answer.json() == {"link": "http://127.0.0.1:9999/login/once"} and served.asked == [(A_ID, "read")]
    assert served.browser.post(f"/registry/{B_ID}/link", headers=ORIGIN).status_code == 503


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/registry", {"host": "evil.com"}, 421),
        ("GET", "/registry", {"origin": "http://evil.com"}, 403),
        ("POST", f"/registry/{A_ID}/link", {}, 403),
        ("POST", "/registry", ORIGIN, 404),
        ("GET", f"/registry/{A_ID}/link", {}, 404),
        ("GET", "/static/%2e%2e/page.py", {}, 400),
    ],
)
def test_what_a_browser_may_not_do(
    served: Served, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert served.browser.request(method, path, headers=headers).status_code == status
    assert served.asked == []


def test_without_a_session_there_is_only_a_page_that_says_how_to_get_one(served: Served) -> None:
    assert served.stranger.get("/").status_code == 401
    assert served.stranger.get("/registry").status_code == served.stranger.get("/static/jobs.js").status_code == 401
    opened = served.browser.get("/")
    assert "jobs.js" in opened.text and "unsafe" not in opened.headers["content-security-policy"]
