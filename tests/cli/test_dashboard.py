"""`penstock dashboard` against a control server: a link that opens the page once."""

import json
import stat
import subprocess
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.cli import dashboard_command, link_page
from tests.cli.test_control_commands import Commands
from tests.records import A_ID, B_ID, NO_PID, job_record


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    found = Commands(tmp_path)
    yield found
    found.server.close()


def test_the_link_opens_the_page(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run("dashboard", "--json", A_ID) == 0
    link = json.loads(capsys.readouterr().out)["link"]
    with httpx.Client(trust_env=False) as browser:
        assert browser.get(link).status_code == 200
        assert browser.get(commands.server.address + "/jobs").status_code == 200
        assert browser.get(link).status_code == 403


def test_it_opens_the_browser_unless_told_not_to(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_browser(link: str) -> bool:
        opened.append(link)
        return True

    monkeypatch.setattr(dashboard_command, "open_browser", open_browser)
    assert commands.run("dashboard", "totals") == 0
    hint, link = capsys.readouterr().out.splitlines()
    assert hint.startswith("Opened in the browser") and link == f"  {opened[0]}"
    assert commands.run("dashboard", "--no-open", A_ID) == 0
    assert capsys.readouterr().out.startswith("Open this link within a minute; it works once:\n  http://127.0.0.1:")
    assert len(opened) == 1


@pytest.mark.parametrize("flags", [(), ("--all",), ("--read-only",)])
def test_without_a_name_it_shows_all_jobs(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    shown: list[tuple[Path, str]] = []
    monkeypatch.setattr(
        dashboard_command, "show_all", lambda registry, scope, *, no_open: shown.append((registry.folder, scope))
    )
    assert commands.run("dashboard", "--no-open", *flags) == 0
    assert shown == [(commands.registry.folder, "read" if "--read-only" in flags else "admin")]


@pytest.mark.parametrize("place", [("totals",), ("-m", "127.0.0.1:1")])
def test_all_jobs_are_those_of_the_registry(
    commands: Commands, capsys: pytest.CaptureFixture[str], place: tuple[str, ...]
) -> None:
    assert commands.run("dashboard", "--all", *place) == 2
    assert "leave out --all" in capsys.readouterr().err


def test_all_jobs_are_served_until_ctrl_c(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    listed: list[str] = []
    commands.registry.write(job_record(job_id=B_ID, name="other", status="FINISHED", pid=NO_PID, ended_ms=1))

    def look() -> None:
        link = capsys.readouterr().out.split()[-1]
        with httpx.Client(trust_env=False) as browser:
            assert browser.get(link).status_code == 200
            found = browser.get(f"{link.partition('/login/')[0]}/registry").json()
            listed.extend(job["id"] for job in found["jobs"])
        raise KeyboardInterrupt

    dashboard_command.show_all(commands.registry, "read", no_open=True, wait=look)
    assert listed == [A_ID, B_ID]


def test_the_browser_is_given_a_private_file_that_leads_to_the_link_and_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(link_page, "KEPT_S", 0.0)
    seen: list[tuple[int, int, str]] = []
    removed = threading.Event()

    def browse(url: str) -> bool:
        page = Path(url.removeprefix("file://"))
        folder_mode, file_mode = (stat.S_IMODE(path.stat().st_mode) for path in (page.parent, page))
        seen.append((folder_mode, file_mode, page.read_text(encoding="utf-8")))
        assert "secret" not in url
        return True

    def start(*arguments: Any, **settings: Any) -> "subprocess.Popen[bytes]":
        assert "secret" not in str(arguments)
        process = popen(*arguments, **settings)
        process.wait()
        removed.set()
        return process

    popen = subprocess.Popen
    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setattr(subprocess, "Popen", start)
    assert link_page.open_browser("http://127.0.0.1:1/login/secret&1")
    ((folder_mode, file_mode, text),) = seen
    assert (folder_mode, file_mode) == (0o700, 0o600)
    assert 'content="0; url=http://127.0.0.1:1/login/secret&amp;1"' in text
    assert removed.is_set() and list(tmp_path.iterdir()) == []


def test_without_a_browser_no_file_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert not link_page.open_browser("http://127.0.0.1:1/login/secret")
    assert list(tmp_path.iterdir()) == []
