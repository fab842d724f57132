"""One subtask's part files: from the first row to the committable (PROTOCOL R28).

The rows of all epochs since the last checkpoint are in one part file, or in several when they are rolled by size. The
position at the start of the running epoch is kept, and `roll_back` returns to it, even if the epoch was already
pre-committed: the part then continues under a new name, so that a committable of the dropped run can never publish it.

After an error the caller rolls back before it continues. If a failed fsync leaves rows of earlier epochs in doubt,
`roll_back` raises StateLostError, and recovery replays them.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from penstock.connectors.file.file_formats import FileFormat, RecordEncoder
from penstock.connectors.file.part_files import PartFolder
from penstock.connectors.file.part_names import PENDING, PartName, new_part_name
from penstock.errors import StateLostError, StorageError
from penstock.model.sink import SinkContext, SinkWriter


@dataclass(frozen=True)
class PartSettings:
    """How parts are written: their format, their finished names, and the size at which one is full."""

    file_format: FileFormat
    prefix: str
    suffix: str
    max_bytes: int | None


class PartWriter(SinkWriter):
    """Writes one subtask's rows into part files. A file is created with its first row."""

    def __init__(self, folder: PartFolder, settings: PartSettings, context: SinkContext) -> None:
        self._folder = folder
        self._settings = settings
        self._context = context
        self._encoder = settings.file_format.encoder(context.record_type)
        self._parts: list[_Part] = []
        self._prepared: list[_Part] = []  # pre-committed in the running epoch
        self._mark = (0, 0, 0)  # at the start of the running epoch: number of parts, bytes and rows of the last one
        self._names_in_doubt = False
        self._lost: str | None = None
        folder.make()

    def begin_epoch(self) -> None:
        self._require_intact()
        size, rows = (self._parts[-1].file.size, self._parts[-1].rows) if self._parts else (0, 0)
        self._mark = (len(self._parts), size, rows)
        prepared, self._prepared = self._prepared, []
        for part in prepared:
            with suppress(StorageError):  # a leftover spool is swept with its attempt; the epoch does not need it
                part.file.keep_pending()

    def write(self, records: Sequence[Any]) -> None:
        self._require_intact()
        if not records:
            return
        data = self._encoder.encode(records)
        if not self._parts or self._is_full(self._parts[-1]):
            self._parts.append(_Part(self._folder, new_part_name(self._context), self._encoder))
        part = self._parts[-1]
        part.append(data, len(records))
        if self._is_full(part):
            part.file.end()

    def roll_back(self) -> None:
        self._require_intact()
        count, size, rows = self._mark
        held = self._prepared + self._parts
        kept, dropped = held[:count], held[count:]
        if kept and (self._names_in_doubt or any(part.file.dead for part in kept)):
            self._lose("rows of earlier epochs are in doubt after a failed fsync")
        try:
            for part in dropped:
                part.file.discard()
            for part in kept:
                part.leave_pending(new_part_name(self._context))
            if kept:
                kept[-1].truncate(size, rows)
        except StorageError as error:
            self._lose(str(error))
        self._parts, self._prepared, self._names_in_doubt = kept, [], False

    def pre_commit(self) -> list[tuple[str, dict[str, str | int]]]:
        self._require_intact()
        descriptions = [(part.name.transaction, part.prepare(self._settings)) for part in self._parts]
        if descriptions:
            self._names_in_doubt = True
            self._folder.sync()
            self._names_in_doubt = False
        self._prepared += self._parts
        self._parts = []
        return descriptions

    def close(self) -> None:
        for part in self._prepared:
            part.file.keep_pending()
        for part in self._parts:
            part.file.discard()
        self._parts, self._prepared = [], []
        self._lost = self._lost or "the writer is closed"

    def _is_full(self, part: "_Part") -> bool:
        limit = self._settings.max_bytes
        return limit is not None and part.file.size >= limit

    def _require_intact(self) -> None:
        if self._lost is not None:
            raise StateLostError(f"sink {self._context.sink_uid!r}, subtask {self._context.subtask}: {self._lost}")

    def _lose(self, reason: str) -> NoReturn:
        self._lost = f"cannot return to the start of the epoch: {reason}"
        raise StateLostError(f"sink {self._context.sink_uid!r}, subtask {self._context.subtask}: {self._lost}")


class _Part:
    """One part, and the number of its rows."""

    def __init__(self, folder: PartFolder, name: PartName, encoder: RecordEncoder) -> None:
        self.name = name
        self.rows = 0
        self.file = folder.new_part(name, encoder)
        self.file.append(encoder.header)

    def append(self, data: bytes, rows: int) -> None:
        """Append encoded rows."""
        self.file.append(data)
        self.rows += rows

    def prepare(self, settings: PartSettings) -> dict[str, str | int]:
        """Make the part pending, and describe it. The new name is durable once the folder is synced."""
        size = self.file.prepare()
        final = self.name.finished(settings.prefix, settings.suffix)
        return {"pending": self.name.hidden(PENDING), "final": final, "size": size, "rows": self.rows}

    def leave_pending(self, name: PartName) -> None:
        """Return to in progress, under a new name if the part is pending."""
        self.name = self.file.leave_pending(name)

    def truncate(self, size: int, rows: int) -> None:
        """Keep only the first `size` bytes, which are `rows` rows, and accept more."""
        self.file.truncate(size)
        self.rows = rows
