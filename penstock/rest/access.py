"""Who may ask: the rules that every request passes before anything else looks at it (security S2, S3, S5)."""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from penstock.control.tokens import Scope, Tokens, token_id
from penstock.errors import RequestRefusedError

Headers = list[tuple[bytes, bytes]]
MAX_QUERY_CHARS = 1024
MAX_HEADER_BYTES = 16 * 1024
_PATH = re.compile(rb"/[A-Za-z0-9_.:~/-]{0,1023}")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_TOKEN_NAMES = re.compile(r"token|auth|secret|password|key", re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """Who asks, by the id of the token."""

    scope: Scope
    token_id: str

    def __str__(self) -> str:
        return f"{self.scope}:{self.token_id}"


@dataclass(frozen=True)
class Access:
    """The rules of one server."""

    tokens: Tokens = field(repr=False)
    hosts: frozenset[str]
    scheme: str = "http"

    def check_origin(self, headers: Headers) -> None:
        """Refuse names that lead here by a trick, and pages of other sites, whatever they ask for."""
        host = _only(headers, b"host", 421, "MISDIRECTED")
        found = _HOST.fullmatch(host or "")
        if host is None or found is None or found[1] not in self.hosts:
            raise RequestRefusedError(421, "MISDIRECTED", "the Host of the request is not a name of this server")
        origin = _only(headers, b"origin", 403, "FORBIDDEN")
        if origin is not None and origin != f"{self.scheme}://{host}":
            raise RequestRefusedError(403, "FORBIDDEN", "requests of pages of other origins are refused")
        site = _only(headers, b"sec-fetch-site", 403, "FORBIDDEN")
        if site is not None and site not in ("same-origin", "none"):
            raise RequestRefusedError(403, "FORBIDDEN", "requests of pages of other sites are refused")

    def identify(self, headers: Headers) -> Caller:
        """Who asks; a wrong token and no token are the same."""
        given = _only(headers, b"authorization", 401, "UNAUTHORIZED", lower=False) or ""
        kind, _, token = given.partition(" ")
        scope = self.tokens.scope_of(token.strip())
        if kind.lower() != "bearer" or scope is None:
            raise RequestRefusedError(401, "UNAUTHORIZED", "this needs a valid token: Authorization: Bearer …")
        return Caller(scope, token_id(token.strip()))


def check_size(headers: Headers) -> None:
    """Refuse a head that is too large, also one that came at once."""
    if sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        raise RequestRefusedError(431, "TOO_LARGE", f"the head of a request has at most {MAX_HEADER_BYTES} bytes")


def check_path(raw_path: bytes) -> None:
    """Refuse paths with encoded characters, steps upwards and the like: no name that we have needs them."""
    path = raw_path.partition(b"?")[0]
    if not _PATH.fullmatch(path) or any(part in (b".", b"..") for part in path.split(b"/")) or b"//" in path:
        raise RequestRefusedError(400, "BAD_REQUEST", "the path has characters that no path here has")


def parse_query(query: bytes, allowed: tuple[str, ...]) -> dict[str, str]:
    """The parameters of the query, each once; values of others are never repeated, they may be secrets."""
    try:
        text = query.decode("ascii")
        if len(text) > MAX_QUERY_CHARS:
            raise ValueError
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=8)
    except ValueError:
        raise RequestRefusedError(400, "BAD_REQUEST", "the query of the request cannot be read") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found or name not in allowed:
            raise RequestRefusedError(400, "BAD_REQUEST", f"parameter {name[:40]!r} is unknown here, or given twice")
        found[name] = value
    return found


def refuse_token_in_query(query: bytes) -> None:
    """A token in a URL ends up in logs and histories."""
    names = (part.partition(b"=")[0].decode("latin-1") for part in re.split(rb"[&;]", query))
    if any(_TOKEN_NAMES.search(name) for name in names):
        raise RequestRefusedError(401, "UNAUTHORIZED", "a token in the URL is refused: use Authorization: Bearer …")


def _only(headers: Headers, name: bytes, status: int, code: str, *, lower: bool = True) -> str | None:
    """The header's value; None without it, refused if it is there twice."""
    values = [value for key, value in headers if key.lower() == name]
    if len(values) > 1:
        raise RequestRefusedError(status, code, f"the header {name.decode()} is there {len(values)} times")
    if not values:
        return None
    text = values[0].decode("latin-1").strip()
    return text.lower() if lower else text
