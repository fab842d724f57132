"""The access rules that every request must pass before it is handled (security S2, S3, S5)."""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from penstock.control.tokens import Scope, Tokens, token_id
from penstock.errors import RequestRefusedError
from penstock.rest.page import cookie_name, session_in
from penstock.rest.page_sessions import PageSessions

Headers = list[tuple[bytes, bytes]]
MAX_QUERY_CHARS = 8 * 1024
"""Clients that ask for all metrics send all their names."""
MAX_HEADER_BYTES = 16 * 1024
_PATH = re.compile(rb"/[A-Za-z0-9_.:~/-]{0,1023}")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
STATE_KEY = "key"
"""The parameter that names a key of a state."""
_TOKEN_NAMES = re.compile(r"token|auth|secret|password|key", re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """Who sent a request, by the id of the token."""

    scope: Scope
    token_id: str
    is_page: bool = False
    """It has a session of the page instead of a token."""

    def __str__(self) -> str:
        return f"{self.scope}:{self.token_id}"


@dataclass(frozen=True)
class Access:
    """The access rules of one server."""

    tokens: Tokens = field(repr=False)
    hosts: frozenset[str]
    scheme: str = "http"
    sessions: PageSessions = field(default_factory=PageSessions, repr=False)

    def check_origin(self, headers: Headers, *, is_link: bool = False) -> None:
        """Refuse requests under a foreign host name (DNS rebinding) and from pages of other sites.

        `is_link`: another page may lead there.
        """
        host = _only(headers, b"host", 421, "MISDIRECTED")
        found = _HOST.fullmatch(host or "")
        if host is None or found is None or found[1] not in self.hosts:
            raise RequestRefusedError(421, "MISDIRECTED", "the Host of the request is not a name of this server")
        origin = _only(headers, b"origin", 403, "FORBIDDEN")
        if origin is not None and origin != f"{self.scheme}://{host}":
            raise RequestRefusedError(403, "FORBIDDEN", "requests from pages of other origins are refused")
        site = _only(headers, b"sec-fetch-site", 403, "FORBIDDEN")
        if site is not None and site not in ("same-origin", "none") and not is_link:
            raise RequestRefusedError(403, "FORBIDDEN", "requests from pages of other sites are refused")

    def identify(self, headers: Headers) -> Caller:
        """The caller. A wrong token and a missing one get the same answer."""
        header = _only(headers, b"authorization", 401, "UNAUTHORIZED", lower=False)
        if header is None:
            return self._identify_page(headers)
        kind, _, token = header.partition(" ")
        scope = self.tokens.scope_of(token.strip())
        if kind.lower() != "bearer" or scope is None:
            raise RequestRefusedError(401, "UNAUTHORIZED", "this needs a valid token: Authorization: Bearer …")
        return Caller(scope, token_id(token.strip()))

    def _identify_page(self, headers: Headers) -> Caller:
        """A browser, by the cookie of its session."""
        cookies = _only(headers, b"cookie", 401, "UNAUTHORIZED", lower=False) or ""
        session = session_in(cookies, cookie_name(self.host_of(headers)))
        scope = None if session is None else self.sessions.scope_of(session)
        if session is None or scope is None:
            raise RequestRefusedError(401, "UNAUTHORIZED", "this needs a valid token: Authorization: Bearer …")
        return Caller(scope, token_id(session), is_page=True)

    @staticmethod
    def host_of(headers: Headers) -> str:
        """The host and port that the client called."""
        return _only(headers, b"host", 421, "MISDIRECTED") or ""

    @staticmethod
    def require_origin(headers: Headers) -> None:
        """Browsers name the page that sends a change; without its name the change is refused."""
        if not any(name.lower() == b"origin" for name, _ in headers):
            raise RequestRefusedError(403, "FORBIDDEN", "a change by a browser needs the header Origin")


def check_size(headers: Headers) -> None:
    """Refuse a request head that is too large, even if it arrived in one piece."""
    if sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        raise RequestRefusedError(431, "TOO_LARGE", f"the head of the request is larger than {MAX_HEADER_BYTES} bytes")


def check_path(raw_path: bytes) -> None:
    """Refuse paths with encoded characters, `..` and the like: no route needs them."""
    path = raw_path.partition(b"?")[0]
    if not _PATH.fullmatch(path) or any(part in (b".", b"..") for part in path.split(b"/")) or b"//" in path:
        raise RequestRefusedError(400, "BAD_REQUEST", "the path has characters that no route has")


def parse_query(query: bytes, allowed: tuple[str, ...]) -> dict[str, str]:
    """The query parameters, each at most once. Messages never show a value, which may be a secret."""
    try:
        text = query.decode("ascii")
        if len(text) > MAX_QUERY_CHARS:
            raise ValueError
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=8)
    except ValueError:
        raise RequestRefusedError(400, "BAD_REQUEST", "the query string cannot be parsed") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found or name not in allowed:
            raise RequestRefusedError(400, "BAD_REQUEST", f"parameter {name[:40]!r} is unknown or repeated")
        found[name] = value
    return found


def refuse_token_in_query(query: bytes) -> None:
    """Refuse a token in the URL, which would end up in logs and histories."""
    names = (part.partition(b"=")[0].decode("latin-1") for part in re.split(rb"[&;]", query))
    if any(_TOKEN_NAMES.search(name) for name in names if name != STATE_KEY):
        raise RequestRefusedError(401, "UNAUTHORIZED", "a token in the URL is refused: use Authorization: Bearer …")


def _only(headers: Headers, name: bytes, status: int, code: str, *, lower: bool = True) -> str | None:
    """The header's value, or None. A header that occurs more than once is refused."""
    values = [value for key, value in headers if key.lower() == name]
    if len(values) > 1:
        raise RequestRefusedError(status, code, f"the header {name.decode()} occurs {len(values)} times")
    if not values:
        return None
    text = values[0].decode("latin-1").strip()
    return text.lower() if lower else text
