"""Addresses of storages: the path of a folder, or the URL of an object store or of HDFS.

Addresses are shown in messages, logs and the registry. So an address with a credential is refused, in a message that
does not repeat it.
"""

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.errors import ConfigurationError, StorageError, UsageError
from penstock.storage.paths import confine

S3 = "s3"
GCS = "gs"
AZURE = "az"
HDFS = "hdfs"
_KINDS = {
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "gs": GCS,
    "gcs": GCS,
    "az": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
    "hdfs": HDFS,
}
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):/", re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_AZURE_HOST = re.compile(r"([a-z0-9]{3,24})\.(?:dfs|blob)\.core\.windows\.net")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?")


@dataclass(frozen=True)
class RemoteAddress:
    """A place in an object store or in HDFS."""

    kind: str
    """One of S3, GCS, AZURE, HDFS."""
    bucket: str
    """Bucket or container; the name node's `host[:port]` for HDFS."""
    prefix: str
    """The path below it, without a slash at either end; may be empty."""
    account: str | None = None
    """Azure's storage account, where the address names it."""

    def __str__(self) -> str:
        place = f"{self.bucket}@{self.account}.dfs.core.windows.net" if self.account else self.bucket
        scheme = "abfss" if self.account else self.kind
        return f"{scheme}://{place}/{self.prefix}".rstrip("/")


def parse_address(text: str) -> Path | RemoteAddress:
    """The folder or the remote place of an address. Raises ConfigurationError if there is no storage for it.

    >>> parse_address("s3a://bucket/jobs/")
    RemoteAddress(kind='s3', bucket='bucket', prefix='jobs', account=None)
    >>> parse_address("ftp://host/checkpoints")
    Traceback (most recent call last):
    penstock.errors.ConfigurationError: no storage for addresses with 'ftp://'; use a folder, s3://, gs://, abfss:// or hdfs://
    """
    scheme = _SCHEME.match(text)
    if scheme is None:
        if not text or "\0" in text:
            raise ConfigurationError("the address of a storage is empty; give the path of a folder or a URL")
        return Path(os.path.abspath(os.path.expanduser(text)))
    name = scheme[1].lower()
    parts = urlsplit(text)
    if parts.password is not None or parts.query or parts.fragment or "?" in text or "#" in text:
        raise ConfigurationError(
            f"the address of a storage has the form {name}://place/path, without password, '?' and '#'; "
            f"endpoint and credentials come from the environment"
        )
    if name == "file":
        if not names_this_machine(parts.netloc):
            raise ConfigurationError(
                f"{text!r} names the machine {parts.netloc!r}, and this is {socket.gethostname()!r}; for a local or "
                f"mounted folder write three slashes: file:///{parts.netloc}{parts.path}"
            )
        return Path(os.path.abspath(unquote(parts.path)))
    if name not in _KINDS:
        raise ConfigurationError(
            f"no storage for addresses with '{name}://'; use a folder, s3://, gs://, abfss:// or hdfs://"
        )
    return _remote(name, parts.netloc, parts.path)


def check_address_form(text: str) -> None:
    """Raise ConfigurationError for a text that is no address. Which machine a file URL names is not checked here."""
    parts = urlsplit(text)
    is_on_a_machine = parts.scheme.lower() == "file" and _HOST.fullmatch(parts.netloc)
    parse_address(parts._replace(netloc="").geturl() if is_on_a_machine else text)


def names_this_machine(host: str) -> bool:
    """Whether the host of a file URL is this machine. An empty one always is."""
    return host.lower() in ("", "localhost", socket.gethostname().lower())


def join_address(text: str, name: str) -> str:
    """The address of a folder below another.

    >>> join_address("s3://bucket/jobs", "4f1c")
    's3://bucket/jobs/4f1c'
    """
    place = parse_address(text)
    confine(name)
    return str(place / name) if isinstance(place, Path) else f"{place}/{name}"


def _remote(scheme: str, place: str, path: str) -> RemoteAddress:
    kind, account = _KINDS[scheme], None
    if kind is AZURE and "@" in place:
        place, _, host = place.partition("@")
        found = _AZURE_HOST.fullmatch(host)
        account = found[1] if found else ""
    if not (_HOST if kind is HDFS else _BUCKET).fullmatch(place) or account == "":
        raise ConfigurationError(
            f"an address with '{scheme}://' begins with a bucket, container (@account.dfs.core.windows.net) or host, "
            f"without a user name"
        )
    prefix = path.strip("/")
    try:
        return RemoteAddress(kind, place, confine(prefix) if prefix else "", account)
    except StorageError as error:
        raise ConfigurationError(f"the address {scheme}://{place} has no usable path: {error}") from None


def require_folder(address: str, what: str) -> None:
    """Raise UsageError unless a local folder can be written, or be made. Other storages are not asked."""
    place = parse_address(address)
    if not isinstance(place, Path):
        return
    nearest = next(folder for folder in (place, *place.parents) if os.path.lexists(folder))
    if not nearest.is_dir():
        raise UsageError(f"the {what} {address!r} cannot be used: {str(nearest)!r} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"the {what} {address!r} cannot be used: {str(nearest)!r} is not writable")
