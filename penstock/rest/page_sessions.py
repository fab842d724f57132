"""Browsers that may use the page: one-time codes, and the sessions that they become."""

import hashlib
import secrets
import threading
from dataclasses import dataclass, field

from penstock.clock import Clock, SystemClock
from penstock.control.tokens import TOKEN_BYTES, Scope

CODE_LIMIT_S = 60
MAX_CODES = 16
MAX_SESSIONS = 64


@dataclass
class PageSessions:
    """Codes and sessions of one server, by their hashes. They end with it. Thread safe."""

    clock: Clock = field(default_factory=SystemClock)
    _codes: dict[str, tuple[Scope, float]] = field(default_factory=dict, repr=False)
    """The scope of a code, and until when it is valid."""
    _sessions: dict[str, Scope] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def new_code(self, scope: Scope) -> str:
        """A code that opens one session with this scope, within a minute."""
        code = secrets.token_urlsafe(TOKEN_BYTES)
        with self._lock:
            self._codes[_hash(code)] = (scope, self.clock.monotonic_s() + CODE_LIMIT_S)
            while len(self._codes) > MAX_CODES:
                del self._codes[next(iter(self._codes))]
        return code

    def open(self, code: str) -> str | None:
        """A new session, or None if the code is wrong, used or too old."""
        with self._lock:
            scope, until_s = self._codes.pop(_hash(code), ("read", float("-inf")))
            if self.clock.monotonic_s() > until_s:
                return None
            session = secrets.token_urlsafe(TOKEN_BYTES)
            self._sessions[_hash(session)] = scope
            while len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            return session

    def scope_of(self, session: str) -> Scope | None:
        """What a session may do; None if there is no such session."""
        with self._lock:
            return self._sessions.get(_hash(session))


def _hash(secret: str) -> str:
    """Looked up by hash, so that the time of a look-up says nothing about the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
