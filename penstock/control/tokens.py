"""The tokens of a job's control server: new at each start, in files that only their owner can read.

The admin token allows every request, the read token only queries. Neither is ever printed, logged or put on a command
line; logs name a token by its id, which reveals nothing about it.
"""

import hashlib
import hmac
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from penstock.errors import NotReachableError, StorageError
from penstock.runtime.process.log_lines import make_private_folder

Scope = Literal["read", "admin"]
ADMIN_FILE = "rest-token"
READ_FILE = "rest-read-token"
TOKEN_BYTES = 32
MAX_TOKEN_CHARS = 1024


@dataclass(frozen=True)
class Tokens:
    """Both tokens of one start. The repr does not show them."""

    admin: str = field(repr=False)
    read: str = field(repr=False)

    @staticmethod
    def new() -> "Tokens":
        """New tokens, 256 random bits each."""
        return Tokens(secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES))

    def scope_of(self, token: str) -> Scope | None:
        """What a token allows; None for a wrong one. The comparison takes constant time."""
        encoded = token.encode("utf-8", "surrogateescape")
        is_admin = hmac.compare_digest(encoded, self.admin.encode())
        is_read = hmac.compare_digest(encoded, self.read.encode())
        return "admin" if is_admin else "read" if is_read else None

    def write(self, folder: Path) -> None:
        """Write both into the folder with mode 0600, and replace older ones."""
        for path, token in self._files(folder):
            if not _holds(path, token):
                _replace(path, token)

    def remove(self, folder: Path) -> None:
        """Remove them from the folder, unless a newer start has replaced them."""
        for path, token in self._files(folder):
            with suppress(OSError):
                if _holds(path, token):
                    path.unlink()

    def _files(self, folder: Path) -> tuple[tuple[Path, str], ...]:
        return (folder / ADMIN_FILE, self.admin), (folder / READ_FILE, self.read)


def token_id(token: str) -> str:
    """The id of a token, for logs."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def read_token(path: Path) -> str:
    """The token in a file; raises NotReachableError if there is none that this user can read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TOKEN_CHARS + 1)
    except OSError as error:
        raise NotReachableError(
            f"cannot read the token file {str(path)!r}: {error.strerror}; only the user who started the job can"
        ) from None
    token = data.decode("ascii", "replace").strip()
    if not token or len(data) > MAX_TOKEN_CHARS or not token.isprintable():
        raise NotReachableError(f"the file {str(path)!r} does not hold a token")
    return token


def _holds(path: Path, token: str) -> bool:
    try:
        return path.read_bytes() == token.encode()
    except OSError:
        return False


def _replace(path: Path, token: str) -> None:
    try:
        make_private_folder(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".rest-")  # mode 0600, a new file
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(token)
        os.replace(temporary, path)
    except OSError as error:
        raise StorageError(f"cannot write the token file {str(path)!r}: {error}") from error
