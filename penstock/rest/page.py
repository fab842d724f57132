"""The web page of a job: its files, and the one-time link that opens it.

The page is a client of the same endpoints as every other one. Its files come from the package; nothing is loaded from
another host.
"""

from functools import cache
from pathlib import Path

from starlette.responses import Response

from penstock.rest.page_sessions import PageSessions

LOGIN_PREFIX = "/login/"
FILES_PREFIX = "/static/"
MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_FOLDER = Path(__file__).with_name("static")
_NOTE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Penstock</title><link rel="icon" href="/static/icon.svg">{refresh}<h1>{title}</h1><p>{text}</p></html>"""
_CLOSED = (
    "This page needs a session. In a terminal of the user who started the job: <code>penstock dashboard JOB</code>"
)
_USED = "A link opens the page once, within a minute. Get a new one: <code>penstock dashboard JOB</code>"


def is_link(path: str) -> bool:
    """Whether the path is a one-time link, which other pages and programs may open."""
    return path.startswith(LOGIN_PREFIX)


def log_in(sessions: PageSessions, path: str, cookie: str, scheme: str) -> Response:
    """Open a session: the answer sets the cookie and leads to the page."""
    session = sessions.open(path.removeprefix(LOGIN_PREFIX))
    if session is None:
        return note(403, "This link is not valid any more", _USED)
    # A page of this server leads on, not a redirect: a browser then counts the next request as one of the same site.
    response = note(200, "Opening the page", '<a href="/">Go on</a>', '<meta http-equiv="refresh" content="0; url=/">')
    secure = "; Secure" if scheme == "https" else ""
    response.headers["set-cookie"] = f"{cookie}={session}; Path=/; HttpOnly; SameSite=Strict{secure}"
    return response


def closed() -> Response:
    """For a browser without a session."""
    return note(401, "Penstock", _CLOSED)


def note(status: int, title: str, text: str, refresh: str = "") -> Response:
    """A page of one paragraph, without scripts."""
    return Response(_NOTE.format(title=title, text=text, refresh=refresh), status, HEADERS, media_type="text/html")


def find_file(path: str, home: str = "index.html") -> Response | None:
    """The page's file at a path; None if there is none."""
    name = home if path == "/" else path.removeprefix(FILES_PREFIX)
    if path != "/" and not path.startswith(FILES_PREFIX):
        return None
    found = page_files().get(name)
    return None if found is None else Response(found, 200, HEADERS, media_type=MEDIA_TYPES[Path(name).suffix])


@cache
def page_files() -> dict[str, bytes]:
    """All files by their names. A request is looked up here and never opens a file."""
    found = (path for path in _FOLDER.rglob("*") if path.suffix in MEDIA_TYPES)
    return {path.relative_to(_FOLDER).as_posix(): path.read_bytes() for path in found}


def cookie_name(host: str) -> str:
    """The name of the session's cookie: browsers share cookies between the ports of a host.

    >>> cookie_name("127.0.0.1:8081"), cookie_name("[::1]")
    ('penstock-8081', 'penstock')
    """
    port = host.rpartition(":")[2]
    return f"penstock-{port}" if port.isdigit() else "penstock"


def session_in(cookies: str, name: str) -> str | None:
    """The session in a Cookie header.

    Other servers of the same host set cookies too, in whatever form: none of them hides this one.

    >>> session_in('theme={"dark": true}; penstock-8081=abc', "penstock-8081")
    'abc'
    """
    for cookie in cookies.split(";"):
        key, _, value = cookie.strip().partition("=")
        if key == name:
            return value
    return None
