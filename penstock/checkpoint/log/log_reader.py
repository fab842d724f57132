"""Reading a job log to its end, also while its owner appends to it and shortens it (PROTOCOL R6)."""

from collections.abc import Sequence

from penstock.checkpoint.file_names import LOG_FOLDER, FileKind, log_entry_path, parse_name
from penstock.checkpoint.log.entries import Base, Record, decode_record
from penstock.checkpoint.log.log_view import LogView, fold
from penstock.errors import FileMissingError, LogCorruptError, LogMissingError
from penstock.storage.storage import Storage

READ_TRIES = 10


def read_log(storage: Storage) -> LogView:
    """What the log says, read to its end; an empty view if there is no log.

    Raises LogCorruptError if entries are missing or damaged, or if the folder holds state without a log: a job with
    state never starts from nothing.
    """
    missing = ""
    for _ in range(READ_TRIES):
        numbers = entry_numbers(storage)
        if not numbers:
            present = storage.list("")
            if _numbers_of(present):
                missing = "its first entry was written while it was read"
                continue
            _require_no_state(storage, present)
            return LogView()
        try:
            return fold(_read_back_to_base(storage, numbers))
        except FileMissingError as error:
            # Its owner has just written a base and deleted the entries before it: start again from there.
            missing = str(error)
    raise LogCorruptError(f"the job log in {storage.uri} cannot be read to its end: {missing}")


def entry_numbers(storage: Storage) -> list[int]:
    """The numbers of all entries, in order; leftovers of interrupted writes do not count."""
    return _numbers_of(storage.list(LOG_FOLDER))


def _numbers_of(paths: Sequence[str]) -> list[int]:
    names = map(parse_name, paths)
    return sorted(name.number for name in names if name and name.kind is FileKind.LOG and not name.temporary)


def _read_back_to_base(storage: Storage, numbers: list[int]) -> list[Record]:
    """The records from the highest base, or from the first entry, to the end."""
    records: list[Record] = []
    present = set(numbers)
    number = numbers[-1]
    while number > 0:
        if number not in present:
            raise FileMissingError(f"there is no log entry {number} below entry {number + 1}")
        path = log_entry_path(number)
        record = decode_record(storage.read(path), path)
        if record.number != number:
            raise LogCorruptError(f"log entry {path!r} holds the record of entry {record.number}")
        records.append(record)
        if isinstance(record.entry, Base):
            break
        number -= 1
    records.reverse()
    return records


def _require_no_state(storage: Storage, present: Sequence[str]) -> None:
    for path in present:
        name = parse_name(path)
        if name is not None and name.kind is not FileKind.LOG:
            raise LogMissingError(
                f"{storage.uri} holds state, for example {path!r}, but no job log (MISSING_IDENTITY); "
                f"bring back its folder {LOG_FOLDER!r}, or start a new job in another folder"
            )
