"""The page of all jobs in a real browser: jobs that run and jobs that have ended, for everybody, and hostile names."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.control.registry import FailureRecord, ProcessRecord, Registry, StatusChange
from penstock.control.remote_job import connect_to_job
from penstock.control.tokens import Scope
from penstock.rest.dashboard import serve_dashboard
from tests.cli.test_control_commands import Commands
from tests.e2e.watched_browser import SCHEMES, SIZES, chromium, new_page, require_usable, screenshot, watch
from tests.records import A_ID, NO_PID, job_record

pytestmark = pytest.mark.e2e

GOLDEN = Path(__file__).parent.parent / "golden" / "0.1.0" / "hashmap-checkpoint"
RETAINED_ID = "0" * 32
"""The job of the retained checkpoint in the golden folder."""
FAILED_ID = "f" * 32
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><b>\u202egnol</b>\x1b[2J"
SHOWN = "<img src=x onerror=\"document.title='taken'\"><b>\\u202egnol</b>\\x1b[2J"
STARTED_MS = 1_700_000_000_000


@dataclass
class AllJobs:
    """The page of a registry, and what the browser has said."""

    registry: Registry
    page: Page
    problems: list[str]
    running: str
    """The address of the job that runs."""

    def open(self, job_id: str = "") -> None:
        """The list, or one job."""
        self.page.evaluate(f"location.hash = '#/{f'jobs/{job_id}' if job_id else ''}'")
        expect(self.page.locator("main section").first).to_be_visible()
        expect(self.page.locator("p.back")).to_have_count(1 if job_id else 0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def jobs(browser: Browser, tmp_path: Path) -> Iterator[AllJobs]:
    commands = Commands(tmp_path)
    processes = [ProcessRecord(1, "here", "driver")]
    started_ms = int(psutil.Process().create_time() * 1000)  # an old record would be that of a lost job
    figures: dict[str, Any] = {"epoch": 42, "rows": 126_000, "rows_per_s": 9120.0, "last_checkpoint": 7, "attempt": 1}
    commands.write(processes=processes, started_ms=started_ms, updated_ms=started_ms + 5_400_000, **figures)
    write_ended_jobs(commands.registry, tmp_path)

    def link_to(job_id: str, scope: Scope) -> str:
        with connect_to_job(commands.registry, job_id, None) as remote:
            return remote.page_link(scope)

    with serve_dashboard(commands.registry, link_to, "admin") as link:
        page, own = new_page(browser), link.partition("/login/")[0]
        problems = watch(page, lambda url: url.startswith((own, commands.server.address, "data:")))
        page.goto(link)
        expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
        yield AllJobs(commands.registry, page, problems, commands.server.address)
        page.close()
    commands.server.close()


def write_ended_jobs(registry: Registry, folder: Path) -> None:
    """One that has finished with a retained checkpoint, and one that has failed, is suspended, cancelled, lost."""
    shutil.copytree(GOLDEN, folder / "checkpoints")
    ended: list[dict[str, Any]] = [
        {
            "job_id": RETAINED_ID,
            "name": "nightly",
            "status": "FINISHED",
            "checkpoint_dir": str(folder / "checkpoints" / RETAINED_ID),
            "last_checkpoint": 1,
            "transitions": [StatusChange("RUNNING", STARTED_MS + 2000), StatusChange("FINISHED", STARTED_MS + 90_000)],
        },
        {
            "job_id": FAILED_ID,
            "name": "clicks by page",
            "status": "FAILED",
            "attempt": 4,
            "failure": "UserFunctionError: 'price' in process_element of operator 'totals', line 12",
            "failures": [
                FailureRecord(STARTED_MS + 30_000, 3, "TaskManagerLostError", "TaskManager tm-3-0 has gone"),
                FailureRecord(STARTED_MS + 60_000, 4, "UserFunctionError", "KeyError: 'price' in process_element"),
            ],
            "checkpoint_dir": str(folder / "absent"),
            "transitions": [StatusChange("FAILED", STARTED_MS + 60_000)],
        },
        {"job_id": "d" * 32, "name": "payments", "status": "SUSPENDED", "last_checkpoint": 31},
        {"job_id": "e" * 32, "name": "orders per minute", "status": "CANCELED"},
    ]
    for number, changes in enumerate(ended, 1):
        values = {"rows": 1234 * number, "attempt": 1, "pid": NO_PID, "started_ms": STARTED_MS - 86_400_000 * number}
        end_ms = STARTED_MS + 90_000
        registry.write(job_record(**{**values, "ended_ms": end_ms, "updated_ms": end_ms, **changes}))
    lost = job_record("c" * 32, name="alerts", pid=NO_PID, updated_ms=STARTED_MS + 5000, last_checkpoint=3)
    registry.write(lost)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_of_all_jobs_opens_for_everybody(jobs: AllJobs, size: str, scheme: Any) -> None:
    """No console error, no request to another host, nothing wider than a phone, nothing that axe-core finds serious."""
    width, height = SIZES[size]
    jobs.page.set_viewport_size({"width": width, "height": height})
    jobs.page.emulate_media(color_scheme=scheme)
    for name, job_id in {"jobs": "", "jobs-retained": RETAINED_ID, "jobs-failed": FAILED_ID}.items():
        jobs.open(job_id)
        screenshot(jobs.page, f"{name}{size}-{scheme}")
        require_usable(jobs.page)
    assert jobs.problems == []


def test_it_shows_jobs_that_run_and_jobs_that_have_ended_with_what_their_logs_keep(jobs: AllJobs) -> None:
    running, others = (jobs.page.get_by_role("table", name=f"Jobs that {what}") for what in ("run", "do not run"))
    expect(running.get_by_role("row")).to_have_count(2)
    expect(running.get_by_role("row").last).to_contain_text("totals")
    expect(others.get_by_role("row")).to_have_count(6)
    for status in ("FINISHED", "FAILED", "SUSPENDED", "CANCELED", "LOST"):
        expect(others.get_by_text(status, exact=True)).to_be_visible()
    jobs.page.get_by_role("link", name="nightly").click()
    kept = jobs.page.get_by_role("table", name="Retained checkpoints")
    expect(kept.get_by_role("row").last).to_contain_text("chk-1")
    jobs.page.get_by_role("link", name="All jobs").click()
    jobs.page.get_by_role("link", name="clicks by page").click()
    expect(jobs.page.get_by_text("there is no folder")).to_be_visible()
    expect(jobs.page.get_by_text("TaskManager tm-3-0 has gone")).to_be_visible()
    assert jobs.problems == []


def test_it_leads_to_the_page_of_a_job_that_runs(jobs: AllJobs) -> None:
    jobs.page.get_by_role("button", name="Open the page of totals").click()
    expect(jobs.page.locator("aside")).to_contain_text("totals")
    assert jobs.page.url.startswith(jobs.running) and "login" not in jobs.page.url
    expect(jobs.page.get_by_role("heading", name="Job", exact=True)).to_be_visible()
    assert jobs.problems == []


def test_rest_r13_a_name_with_markup_and_control_characters_is_text(jobs: AllJobs) -> None:
    jobs.registry.write(job_record("b" * 32, name=HOSTILE, status="FINISHED", pid=NO_PID, ended_ms=STARTED_MS))
    jobs.page.get_by_role("link", name=SHOWN).click()
    expect(jobs.page.get_by_role("heading", level=1)).to_have_text(SHOWN)
    assert jobs.page.title() == SHOWN
    assert jobs.page.locator("img").count() == jobs.page.locator("h1 b").count() == 0
    assert jobs.problems == []


def test_it_says_that_the_command_has_ended(jobs: AllJobs) -> None:
    jobs.page.route("**/registry", lambda route: route.abort())
    alert = jobs.page.get_by_role("alert")
    expect(alert).to_contain_text("The command has ended")
    expect(alert).to_contain_text("penstock dashboard")
    assert A_ID not in alert.inner_text()
