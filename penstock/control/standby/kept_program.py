"""A program and how it was started, as one zip file that a standby can run without the machine it comes from."""

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.control.standby.program_files import MAX_BYTES
from penstock.errors import PathOutsideError, UsageError
from penstock.storage.paths import confine

FORMAT_VERSION = 1
_ABOUT = "penstock-program.json"
_FILES = "files/"
_TIME = (1980, 1, 1, 0, 0, 0)
"""Of every file in the archive: its bytes depend on the program alone."""


class KeptProgram(msgspec.Struct, frozen=True, kw_only=True):
    """How a job was started. `penstock standby` starts it again in the same way."""

    version: int = FORMAT_VERSION
    job_id: str
    name: str
    job_address: str
    """The job's folder in the checkpoint storage, with its log."""
    job_file: str
    """Below the program's folder."""
    folder: str
    """Where the program was, for messages."""
    working_folder: str
    """Of the process that started it; relative paths of the program count from there."""
    arguments: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    """Of the command line and the configuration files."""
    parallelism: int | None = None
    savepoint_path: str | None = None
    claim_mode: str | None = None
    allow_non_restored: bool = False
    allow_fallback: bool = False
    require_exactly_once: bool = False
    pyflink: bool = False


def pack(program: KeptProgram, files: Mapping[str, bytes]) -> bytes:
    """The program with its files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(_ABOUT, _TIME), msgspec.json.encode(program))
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(_FILES + name, _TIME), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def describe(data: bytes, address: str) -> KeptProgram:
    """How the program was started. `address` names the archive in messages."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            program = msgspec.json.decode(_read(archive, _ABOUT), type=KeptProgram)
    except (zipfile.BadZipFile, KeyError, EOFError, msgspec.MsgspecError, NotImplementedError) as error:
        raise UsageError(f"the program in {address} cannot be read: {error}; start the job again with --ha") from error
    if program.version != FORMAT_VERSION:
        raise UsageError(
            f"the program in {address} was stored by another version of Penstock (form {program.version}, this one "
            f"reads {FORMAT_VERSION}); use the same version for the driver and its standbys"
        )
    return program


def unpack(data: bytes, folder: Path, address: str) -> KeptProgram:
    """Write the program's files below an empty folder that only its owner may read."""
    program = describe(data, address)
    left = MAX_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                if entry.filename == _ABOUT or entry.is_dir():
                    continue
                left -= entry.file_size
                if not entry.filename.startswith(_FILES) or left < 0:
                    raise UsageError(f"the program in {address} is not one that --ha has stored: {entry.filename!r}")
                _write(folder, confine(entry.filename.removeprefix(_FILES)), _read(archive, entry.filename))
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError) as error:
        raise UsageError(f"the program in {address} cannot be read: {error}; start the job again with --ha") from error
    except PathOutsideError as error:
        raise UsageError(f"the program in {address} is not one that --ha has stored: {error}") from error
    confine(program.job_file)
    return program


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of the archive; what a damaged archive claims about its size is not believed."""
    with archive.open(name) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise zipfile.BadZipFile(f"{name!r} is larger than {MAX_BYTES >> 20} MiB")
    return data


def _write(folder: Path, name: str, data: bytes) -> None:
    target = folder / name
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
