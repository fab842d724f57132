"""The web page of a real job, in a real browser: every page, its labels, and what its buttons do.

With PENSTOCK_SCREENSHOTS pictures of the pages go into that folder: `make screenshots`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Page, expect

from penstock.control.registry import JobRecord, Registry
from penstock.control.remote_job import connect_to_job
from tests.e2e.page_values import checkpoint_page, checkpoints_page, duration, read_page, time_of_day
from tests.e2e.watched_browser import SCHEMES, SIZES, chromium, new_page, require_usable, screenshot, watch
from tests.process.programs import environment
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

PROGRAM = Path(__file__).with_name("page_program.py")
EPOCHS_IN_PICTURES = 45
VIEWS = ("", "checkpoints", "state", "savepoints", "exceptions", "configuration", "guarantees", "logs")


@dataclass
class Job:
    """A job in another process, and the browser that looks at it."""

    folder: Path
    page: Page
    registry: Registry
    problems: list[str]
    """What the browser said on its console, and requests to other hosts."""

    @property
    def record(self) -> JobRecord:
        return next(iter(self.registry.list()))

    @property
    def base(self) -> str:
        return f"/jobs/{self.record.job_id}"

    def rest(self, path: str) -> Any:
        """What the job's server answers."""
        with connect_to_job(self.registry, self.record.job_id, None) as remote:
            return remote.request("GET", self.base + path)

    def open(self, view: str) -> None:
        """Go to a view, and wait until it is there."""
        self.page.evaluate(f"location.hash = '#/{view}'")
        title = view.partition("/")[0].capitalize() or "Job"
        expect(self.page.locator("main > header h2")).to_have_text(title)
        expect(self.page.locator("main > *").nth(1)).to_be_visible()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    folder = tmp_path_factory.mktemp("page")
    registry = Registry(folder / "registry")
    settings = {
        "spark.master": "local[4,4]",
        "penstock.registry.dir": registry.folder,
        "execution.checkpointing.dir": folder / "checkpoints",
        "execution.checkpointing.savepoint-dir": folder / "savepoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 10,
        "restart-strategy.fixed-delay.delay": "1 s",
        "execution.checkpointing.tolerable-failed-checkpoints": 10,
        "execution.checkpointing.min-pause": "500 ms",
    }
    flags = [f"-D{name}={value}" for name, value in settings.items()]
    start_ms = int(psutil.Process().create_time() * 1000)
    command = [sys.executable, "-m", "penstock", "run", "-p", "2", *flags, str(PROGRAM), str(start_ms)]
    with open(folder / "out", "wb") as out, chromium() as browser:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment(folder))
        try:
            wait_until(lambda: process.poll() is not None or any(r.last_checkpoint and r.rest for r in registry.list()))
            assert process.poll() is None, (folder / "out").read_text(encoding="utf-8")[-2000:]
            own = next(iter(registry.list())).rest
            assert own is not None
            page = new_page(browser)
            found = Job(folder, page, registry, watch(page, lambda url: url.startswith((own, "data:"))))
            with connect_to_job(registry, found.record.job_id, None) as remote:
                page.goto(remote.page_link("admin"))
            expect(page.locator("main")).to_be_visible()
            yield found
        finally:
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_opens_for_everybody(job: Job, size: str, scheme: Any) -> None:
    """No console error, no request to another host, nothing wider than a phone, nothing that axe-core finds serious."""
    width, height = SIZES[size]
    job.page.set_viewport_size({"width": width, "height": height})
    job.page.emulate_media(color_scheme=scheme)
    if "PENSTOCK_SCREENSHOTS" in os.environ:
        wait_until(lambda: job.record.epoch >= EPOCHS_IN_PICTURES)
    newest = job.rest("/checkpoints")["latest"]["completed"]["id"]
    for view in (*VIEWS, f"checkpoints/{newest}"):
        job.open(view)
        screenshot(job.page, f"{view.replace(f's/{newest}', '') or 'job'}{size}-{scheme}")
        require_usable(job.page)
    assert job.problems == []


def test_the_pages_are_reached_by_keyboard(job: Job) -> None:
    job.page.set_viewport_size({"width": 1280, "height": 860})
    job.page.emulate_media(color_scheme="light")
    job.open("")
    keys = job.page.keyboard
    job.page.locator("a.skip").focus()
    keys.press("Enter")
    assert job.page.evaluate("document.activeElement.id") == "main"
    job.page.locator("a.skip").focus()
    for title in ("Checkpoints", "State"):
        for _ in VIEWS:
            keys.press("Tab")
            if job.page.evaluate("document.activeElement.textContent.trim()") == title:
                break
        keys.press("Enter")
        expect(job.page.locator("main > header h2")).to_have_text(title)
    assert job.problems == []


def test_a_savepoint_is_taken_listed_and_checked(job: Job) -> None:
    job.open("savepoints")
    job.page.get_by_role("button", name="Take a savepoint").click()
    expect(job.page.get_by_role("status").filter(has_text="Taking a savepoint")).to_be_visible()
    expect(job.page.get_by_role("status").filter(has_text="The savepoint is complete")).to_be_visible()
    savepoint = job.rest("/checkpoints")["latest"]["savepoint"]
    assert Path(savepoint["external_path"], "_metadata").exists()
    expect(job.page.get_by_role("table").get_by_text("COMPLETED").first).to_be_visible()
    job.page.get_by_role("button", name=f"Check a restore of savepoint {savepoint['id']}").click()
    expect(job.page.get_by_text("It would start")).to_be_visible()
    screenshot(job.page, "savepoints-checked-light")
    with job.page.expect_download() as download:
        job.page.get_by_role("link", name="Manifest").first.click()
    assert '"penstock-checkpoint"' in Path(download.value.path()).read_text(encoding="utf-8")


def test_a_key_is_looked_up(job: Job) -> None:
    job.page.get_by_role("button", name="Dismiss").click()
    job.open("state")
    job.page.get_by_label("Key (string)").fill("ada")
    job.page.get_by_role("button", name="Look up").click()
    expect(job.page.get_by_role("status").filter(has_text="at the end of epoch")).to_be_visible()
    assert float(job.page.locator(".answer pre").inner_text()) > 0
    screenshot(job.page, "state-key-light")


def test_a_rescale_is_seen_without_a_reload(job: Job) -> None:
    job.open("")
    job.page.evaluate("window.isSame = true")
    job.page.get_by_role("button", name="Rescale").click()
    job.page.get_by_label("Subtasks per operator").fill("3")
    job.page.get_by_role("dialog").get_by_role("button", name="Rescale").click()
    expect(job.page.get_by_role("status").filter(has_text="Rescaled from 2 to 3").first).to_be_visible()
    expect(job.page.locator("svg.graph")).to_contain_text("× 3")
    expect(job.page.locator("section", has_text="Parallelism")).to_contain_text("now 3")
    (done,) = job.rest("/rescaling")["rescales"]
    assert read_page(job.page)["tables"]["Changes of the parallelism, newest first"] == [
        {
            "Time": time_of_day(done["timestamp"]),
            "Change": "2 → 3",
            "By": "request",
            "Reason": "–",
            "Outcome": f"paused for {duration(done['pause-ms'])}, at checkpoint {done['checkpointId']}",
        }
    ]
    screenshot(job.page, "job-rescaled-light")
    assert job.page.evaluate("window.isSame") is True


def test_a_killed_taskmanager_is_seen_as_a_restart_without_a_reload(job: Job) -> None:
    before = job.record
    wait_until(lambda: job.record.phase is None and job.record.status == "RUNNING")
    victim = next(process for process in job.record.processes if process.role == "taskmanager")
    os.kill(victim.pid, signal.SIGKILL)
    expect(job.page.locator("nav .count")).to_have_text("1")
    expect(job.page.locator(".event-label").last).to_have_text("restart")
    expect(job.page.get_by_text(f"attempt {before.attempt + 1}", exact=True)).to_be_visible()
    job.open("exceptions")
    expect(job.page.locator("article")).to_contain_text("TaskManagerLostError")
    screenshot(job.page, "exceptions-killed-light")
    assert job.page.evaluate("window.isSame") is True and job.problems == []


def test_t1_t2_t4_t5_the_page_of_checkpoints_shows_what_rest_gives(job: Job) -> None:
    """Of a job that has completed and failed checkpoints, a savepoint and a restart behind it."""
    job.page.get_by_role("button", name="Dismiss").click()
    fail_a_checkpoint(job)
    job.open("checkpoints")
    assert_same(
        lambda: read_page(job.page),
        lambda: checkpoints_page(job.rest("/checkpoints"), job.rest("/checkpoints/config")),
    )
    found = job.rest("/checkpoints")
    assert all(found["latest"].values()) and found["counts"]["failed"] and found["counts"]["restored"]
    screenshot(job.page, "checkpoints-failed-light")


@pytest.mark.parametrize("kind", ["completed", "savepoint", "failed"])
def test_t3_the_page_of_a_checkpoint_shows_what_rest_gives(job: Job, kind: str) -> None:
    number = job.rest("/checkpoints")["latest"][kind]["id"]
    vertices = job.rest("")["vertices"]  # at parallelism 3; the savepoint was taken at 2
    names = [vertex["name"].replace(" -> ", " → ") for vertex in vertices]
    job.open(f"checkpoints/{number}")
    expect(job.page.locator("main section h2").first).to_contain_text(str(number))

    def given() -> Any:
        details = f"/checkpoints/details/{number}"
        tasks = [job.rest(f"{details}/subtasks/{vertex['id']}") for vertex in vertices]
        return checkpoint_page(job.rest(details), tasks, names)

    assert_same(lambda: read_page(job.page), given)
    screenshot(job.page, f"checkpoint-{kind}-light")
    if kind == "failed":
        failure = job.page.locator("main .banner.bad")
        expect(failure).to_contain_text(job.rest(f"/checkpoints/details/{number}")["failure_message"])
        expect(failure).to_contain_text("Check the checkpoint storage")
    else:
        lanes = job.page.locator(".timeline .lane .who")
        expect(lanes).to_have_count(job.rest(f"/checkpoints/details/{number}")["num_subtasks"] + 1)
    assert job.problems == []


def fail_a_checkpoint(job: Job) -> None:
    """Put files where the next checkpoints would make their folders, until one has failed."""
    folder = Path(job.rest("/figures")["checkpoint-dir"], job.record.job_id)
    found = job.rest("/checkpoints")
    newest, failed = found["history"][0]["id"], found["counts"]["failed"]
    blocked = [path for number in range(1, 4) if not (path := folder / f"chk-{newest + number}").exists()]
    for path in blocked:
        path.touch()
    wait_until(lambda: job.rest("/checkpoints")["counts"]["failed"] > failed)
    for path in filter(Path.is_file, blocked):
        path.unlink()
    completed = job.rest("/checkpoints")["counts"]["completed"]
    wait_until(lambda: job.rest("/checkpoints")["counts"]["completed"] > completed)


def assert_same(shown: Callable[[], Any], given: Callable[[], Any]) -> None:
    """The page shows what is given: at some moment between two checkpoints."""
    pair: list[Any] = [None, None]

    def same() -> bool:
        pair[:] = [shown(), given()]
        return bool(pair[0] == pair[1])

    with suppress(AssertionError):
        wait_until(same, timeout_s=60)
    assert pair[0] == pair[1]


def test_the_page_says_that_the_driver_is_gone_and_names_its_last_checkpoint(job: Job) -> None:
    job.open("")
    os.kill(job.record.pid, signal.SIGKILL)
    alert = job.page.get_by_role("alert")
    expect(alert).to_contain_text("The driver of the job does not answer")
    expect(alert).to_contain_text("chk-")
    expect(job.page.locator("aside")).to_contain_text("LOST")
    screenshot(job.page, "lost-light")
