"""Opens a secret link in the browser without naming it in a command line, which every user of the machine can read."""

import html
import shutil
import subprocess
import sys
import tempfile
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path

from penstock.runtime.process.log_lines import open_private

KEPT_S = 60.0
"""As long as the link is valid: a browser that starts may take a while to read the file."""
_REMOVER = "import shutil, sys, time; time.sleep(float(sys.argv[2])); shutil.rmtree(sys.argv[1], True)"
_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Penstock</title>
<a href="{link}">Go on</a>
"""


def open_browser(link: str) -> bool:
    """Open the link in this user's browser, by a file that only they can read; whether there is a browser.

    The file is removed after a minute, by a process of its own: the browser reads it when this one has ended.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-page-"))
    with suppress(webbrowser.Error, OSError):
        page = folder / "open.html"
        with open(page, "x", encoding="utf-8", opener=open_private) as file:
            file.write(_PAGE.format(link=html.escape(link)))
        if webbrowser.open(page.as_uri()):
            _remove_later(folder)
            return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _remove_later(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _REMOVER, str(folder), str(KEPT_S)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=process.wait, name="page-remover", daemon=True).start()
