"""`put_if_absent` for S3, Google Cloud Storage and Azure: one conditional put, with `obstore` (PROTOCOL R1, R5).

obstore's own retries are off for writes: a retry inside the client would get "already exists" for the object that its
own first try has put. The retries are made here, where it is known whether an earlier try is in doubt.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigurationError, NameTakenError, StorageError, UnknownOutcomeError
from penstock.model.units import MIB
from penstock.storage.address import AZURE, GCS, S3, RemoteAddress
from penstock.storage.error_text import brief_reason

try:
    import obstore
    from obstore import exceptions as obstore_errors
    from obstore.store import AzureStore, GCSStore, S3Store
except ImportError:  # the extra is not installed; `ConditionalPut.open` says so
    obstore = None  # type: ignore[assignment]

EXTRA = "penstock[object-stores]"
WAITS_S = (0.1, 0.5, 2.0)
"""The pauses between tries of one write."""
CONNECT_TIMEOUT_S = 5
SMALL_FILE_BYTES = MIB
SMALL_TIMEOUT_S = 10
LARGE_TIMEOUT_S = 600


@dataclass(frozen=True)
class _Stores:
    """Clients of one bucket: small writes have a short timeout, and only repeatable requests are retried."""

    small: Any
    large: Any
    retrying: Any


class ConditionalPut:
    """Writes and deletes objects below a prefix. Thread safe."""

    def __init__(self, address: RemoteAddress, stores: _Stores, wait: Callable[[float], None] = time.sleep) -> None:
        self._address = address
        self._stores = stores
        self._wait = wait

    @classmethod
    def open(cls, address: RemoteAddress, wait: Callable[[float], None] = time.sleep) -> "ConditionalPut":
        """A writer for an address. Raises ConfigurationError without obstore, or if it rejects the settings."""
        if obstore is None:
            raise ConfigurationError(f"checkpoints in {address} need obstore: pip install '{EXTRA}'")
        try:
            stores = _Stores(
                small=_open_store(address, SMALL_TIMEOUT_S, retries=0),
                large=_open_store(address, LARGE_TIMEOUT_S, retries=0),
                retrying=_open_store(address, SMALL_TIMEOUT_S, retries=3),
            )
        except (obstore_errors.BaseError, ValueError) as error:
            raise ConfigurationError(f"cannot use {address}: {brief_reason(error)}") from None
        return cls(address, stores, wait)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Put the object unless one of that name exists.

        A write without a reply is repeated. If the name is taken then, the object is read back and compared. If it is
        taken but there is no object (S3's 409: a concurrent write or delete), the write is repeated too.
        """
        is_doubtful, last = False, "no try was made"
        for seconds in (*WAITS_S, None):
            try:
                return self._put(path, data)
            except NameTakenError:
                is_own = self._is_own(path, data, in_doubt=is_doubtful)
                if is_own:
                    return None
                if is_own is not None:
                    raise
                last = "another write or delete of this name was under way"
            except UnknownOutcomeError as error:
                is_doubtful, last = True, str(error)
            except StorageError as error:
                if not is_doubtful:
                    raise
                last = str(error)
            if seconds is not None:
                self._wait(seconds)
        kind = UnknownOutcomeError if is_doubtful else StorageError
        raise kind(f"no answer to the write of {path!r} in {self._address} after {len(WAITS_S) + 1} tries: {last}")

    def delete(self, path: str) -> None:
        try:
            obstore.delete(self._stores.retrying, self._key(path))
        except FileNotFoundError:
            return
        except obstore_errors.BaseError as error:
            raise StorageError(f"cannot delete {path!r} in {self._address}: {brief_reason(error)}") from None

    def _put(self, path: str, data: bytes) -> None:
        """One try."""
        try:
            obstore.put(self._store(data), self._key(path), data, mode="create")
        except (obstore_errors.AlreadyExistsError, obstore_errors.PreconditionError):
            raise NameTakenError(f"{path!r} exists already in {self._address}") from None
        except _REFUSED as error:
            raise StorageError(f"{self._address} refuses the write of {path!r}: {brief_reason(error)}") from None
        except (obstore_errors.BaseError, OSError) as error:
            raise UnknownOutcomeError(f"no reply to the write of {path!r}: {brief_reason(error)}") from None

    def _is_own(self, path: str, data: bytes, *, in_doubt: bool) -> bool | None:
        """Whether an earlier try has written the object that is there; None if there is none."""
        try:
            found = obstore.head(self._stores.retrying, self._key(path))
            if not in_doubt or found["size"] != len(data):
                return False
            return bytes(obstore.get(self._store(data), self._key(path)).bytes()) == data
        except FileNotFoundError:
            return None
        except obstore_errors.BaseError as error:
            reason = brief_reason(error)
            raise UnknownOutcomeError(
                f"{path!r} is taken in {self._address}, but cannot be read back: {reason}"
            ) from None

    def _store(self, data: bytes) -> Any:
        return self._stores.small if len(data) <= SMALL_FILE_BYTES else self._stores.large

    def _key(self, path: str) -> str:
        return f"{self._address.prefix}/{path}" if self._address.prefix else path


def _open_store(address: RemoteAddress, timeout_s: int, *, retries: int) -> Any:
    """A client of obstore. It reads endpoint and credentials from the environment itself."""
    endpoint = next((os.environ[name] for name in _ENDPOINTS[address.kind] if os.environ.get(name)), "")
    client = {
        "timeout": f"{timeout_s}s",
        "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
        "allow_http": endpoint.startswith("http://"),
    }
    options: dict[str, Any] = {"client_options": client, "retry_config": {"max_retries": retries}}
    if address.kind == S3:
        return S3Store(address.bucket, config={"endpoint": endpoint} if endpoint else {}, **options)
    if address.kind == GCS:
        return GCSStore(address.bucket, **options)
    assert address.kind == AZURE
    if address.account is not None:
        options["config"] = {"account_name": address.account}
    return AzureStore(address.bucket, **options)


_ENDPOINTS = {
    S3: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    GCS: ("GOOGLE_BASE_URL",),
    AZURE: ("AZURE_STORAGE_ENDPOINT",),
}
_REFUSED: tuple[type[Exception], ...] = ()
if obstore is not None:
    # Refused by the store, or never sent: nothing was written and nothing will be.
    _REFUSED = (
        FileNotFoundError,
        obstore_errors.PermissionDeniedError,
        obstore_errors.UnauthenticatedError,
        obstore_errors.InvalidPathError,
        obstore_errors.NotSupportedError,
        NotImplementedError,
    )
