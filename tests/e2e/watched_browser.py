"""A Chromium for the tests of pages: what it must not say or load, and what keeps people out of a page."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from scripts.browser import FLAGS, find_axe, find_chromium

LIMIT_MS = 120_000
SCHEMES = ("light", "dark")
SIZES = {"": (1280, 860), "-phone": (390, 844)}
expect.set_options(timeout=LIMIT_MS)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without any history."""
    found = find_chromium()
    assert found is not None, "there is no Chromium: python scripts/browser.py"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(found), args=list(FLAGS))
        yield browser
        browser.close()


def new_page(browser: Browser) -> Page:
    width, height = SIZES[""]
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(LIMIT_MS)
    return page


def watch(page: Page, is_own: Callable[[str], bool]) -> list[str]:
    """A list that gets what the browser says on its console, refused requests, and those to other hosts."""
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("response", lambda got: problems.append(f"{got.status} {got.url}") if got.status >= 400 else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda sent: None if is_own(sent.url) else problems.append(sent.url))
    return problems


def require_usable(page: Page) -> None:
    """Nothing is wider than the window, and axe-core finds nothing serious."""
    axe = find_axe()
    assert axe is not None, "there is no axe-core: python scripts/browser.py"
    page.evaluate(axe.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert not [one for one in found if one["impact"] in ("serious", "critical")], (page.url, found)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url


def screenshot(page: Page, name: str) -> None:
    """With PENSTOCK_SCREENSHOTS, write a picture into that folder."""
    folder = os.environ.get("PENSTOCK_SCREENSHOTS")
    if folder:
        page.screenshot(path=f"{folder}/{name}.png")
