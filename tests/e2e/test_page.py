"""The web page of a real job, in a real browser: every page, its labels, and what its buttons do.

With PENSTOCK_SCREENSHOTS the pictures of the pages go into that folder: `make screenshots`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from penstock.control.registry import JobRecord, Registry
from penstock.control.remote_job import connect_to_job
from scripts.browser import FLAGS, find_axe, find_chromium
from tests.process.programs import environment
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

PROGRAM = Path(__file__).with_name("page_program.py")
LIMIT_MS = 120_000
EPOCHS_IN_PICTURES = 45
VIEWS = ("", "checkpoints", "state", "savepoints", "exceptions", "configuration", "guarantees", "logs")
SIZES = {"": (1280, 860), "-phone": (390, 844)}
expect.set_options(timeout=LIMIT_MS)


@dataclass
class Job:
    """A job in another process, and the browser that looks at it."""

    folder: Path
    page: Page
    registry: Registry
    problems: list[str] = field(default_factory=list)
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

    def screenshot(self, name: str) -> None:
        folder = os.environ.get("PENSTOCK_SCREENSHOTS")
        if folder:
            self.page.screenshot(path=f"{folder}/{name}.png")


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
    }
    flags = [f"-D{name}={value}" for name, value in settings.items()]
    start_ms = int(psutil.Process().create_time() * 1000)
    command = [sys.executable, "-m", "penstock", "run", "-p", "2", *flags, str(PROGRAM), str(start_ms)]
    chromium = find_chromium()
    assert chromium is not None, "there is no Chromium: python scripts/browser.py"
    with open(folder / "out", "wb") as out, sync_playwright() as playwright:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment(folder))
        try:
            wait_until(lambda: process.poll() is not None or any(r.last_checkpoint and r.rest for r in registry.list()))
            assert process.poll() is None, (folder / "out").read_text(encoding="utf-8")[-2000:]
            browser = playwright.chromium.launch(executable_path=str(chromium), args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.set_default_timeout(LIMIT_MS)
            found = Job(folder, page, registry)
            watch(found)
            with connect_to_job(registry, found.record.job_id, None) as remote:
                page.goto(remote.page_link("admin"))
            expect(page.locator("main")).to_be_visible()
            yield found
            browser.close()
        finally:
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()


def watch(job: Job) -> None:
    """Note what must not happen in the browser."""
    own = job.record.rest
    assert own is not None
    job.page.on("console", lambda said: job.problems.append(said.text) if said.type in ("error", "warning") else None)
    job.page.on("response", lambda got: job.problems.append(f"{got.status} {got.url}") if got.status >= 400 else None)
    job.page.on("pageerror", lambda error: job.problems.append(str(error)))
    job.page.on("request", lambda sent: None if sent.url.startswith((own, "data:")) else job.problems.append(sent.url))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_opens_for_everybody(job: Job, size: str, scheme: Any) -> None:
    """No console error, no request to another host, nothing wider than a phone, nothing that axe-core finds serious."""
    width, height = SIZES[size]
    job.page.set_viewport_size({"width": width, "height": height})
    job.page.emulate_media(color_scheme=scheme)
    axe = find_axe()
    assert axe is not None, "there is no axe-core: python scripts/browser.py"
    if "PENSTOCK_SCREENSHOTS" in os.environ:
        wait_until(lambda: job.record.epoch >= EPOCHS_IN_PICTURES)
    newest = job.rest("/checkpoints")["latest"]["completed"]["id"]
    for view in (*VIEWS, f"checkpoints/{newest}"):
        job.open(view)
        if (size, scheme) == ("", "light") or view in ("", "checkpoints"):
            job.screenshot(f"{view.replace(str(newest), 'one').replace('/', '-') or 'job'}{size}-{scheme}")
        job.page.evaluate(axe.read_text(encoding="utf-8"))
        found = job.page.evaluate("axe.run()")["violations"]
        assert not [one for one in found if one["impact"] in ("serious", "critical")], (view, found)
        assert job.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
    assert job.problems == []


def test_the_pages_are_reached_by_keyboard(job: Job) -> None:
    job.page.set_viewport_size({"width": 1280, "height": 860})
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


def test_t1_t2_t3_t4_t5_the_labels_of_checkpoints_show_what_rest_gives(job: Job) -> None:
    """Of the live job; `tests/rest/test_page_checkpoints.py` compares every figure."""
    job.page.set_viewport_size({"width": 1280, "height": 860})
    job.page.emulate_media(color_scheme="light")
    job.open("checkpoints")
    expect(job.page.locator("main")).to_contain_text("Checkpointing Mode")
    text = job.page.locator("main").inner_text()
    for label in (
        *("Triggered", "In Progress", "Completed", "Failed", "Restored", "Latest Completed Checkpoint"),
        *(
            "Latest Failed Checkpoint",
            "Latest Savepoint",
            "Latest Restore",
            "End to End Duration",
            "Checkpointed Data Size",
        ),
        *("Full Checkpoint Data Size", "Acknowledged", "Trigger Time", "Latest Acknowledgement"),
        *("Processed (persisted) in-flight data", "Minimum", "Average", "Maximum", "p50", "p99.9"),
        *("Checkpointing Mode", "Checkpoint Storage", "State Backend", "Interval", "Timeout"),
        *("Minimum Pause Between Checkpoints", "Maximum Concurrent Checkpoints", "Unaligned Checkpoints"),
        *("Aligned checkpoint timeout", "Persist Checkpoints Externally", "Tolerable Failed Checkpoints"),
        *("Checkpoints With Finished Tasks", "State Changelog", "Changelog Storage"),
    ):
        assert label in text, label
    newest = job.rest("/checkpoints")["history"][1]
    row = job.page.locator("tr", has=job.page.get_by_role("rowheader", name=str(newest["id"]), exact=True))
    expect(row).to_contain_text(newest["status"])
    total = newest["num_subtasks"]
    expect(row).to_contain_text(f"{total}/{total} (100%)")
    config = job.rest("/checkpoints/config")
    assert "Exactly Once" in text and config["state_backend"] in text and config["checkpoint_storage"] in text
    job.open(f"checkpoints/{newest['id']}")
    expect(job.page.locator("main")).to_contain_text(newest["external_path"])
    for label in ("Sync Duration", "Async Duration", "Alignment Duration", "Start Delay", "Unaligned Checkpoint"):
        expect(job.page.get_by_role("columnheader", name=label).first).to_be_visible()


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
    job.screenshot("savepoints-checked-light")
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
    job.screenshot("state-key-light")


def test_a_rescale_is_seen_without_a_reload(job: Job) -> None:
    job.open("")
    job.page.evaluate("window.isSame = true")
    job.page.get_by_role("button", name="Rescale").click()
    job.page.get_by_label("Subtasks per operator").fill("3")
    job.page.get_by_role("dialog").get_by_role("button", name="Rescale").click()
    expect(job.page.get_by_role("status").filter(has_text="Rescaled from 2 to 3").first).to_be_visible()
    expect(job.page.locator("svg.graph")).to_contain_text("× 3")
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
    job.screenshot("exceptions-killed-light")
    assert job.page.evaluate("window.isSame") is True and job.problems == []


def test_the_page_says_that_the_driver_is_gone_and_names_its_last_checkpoint(job: Job) -> None:
    job.open("")
    os.kill(job.record.pid, signal.SIGKILL)
    alert = job.page.get_by_role("alert")
    expect(alert).to_contain_text("The driver of the job does not answer")
    expect(alert).to_contain_text("chk-")
    expect(job.page.locator("aside")).to_contain_text("LOST")
    job.screenshot("lost-light")
