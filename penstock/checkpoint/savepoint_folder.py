"""The folder of one savepoint, and the files that the JobManager writes there."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.checkpoint.snapshot.manifest import digest, verify_file
from penstock.checkpoint.snapshot.savepoint_paths import METADATA, clear_folder, source_path
from penstock.errors import CheckpointError
from penstock.model.snapshot import SourcePosition, StateFile
from penstock.storage.certain_put import put_certain
from penstock.storage.storage import Storage


@dataclass(frozen=True)
class SavepointFolder:
    """Created by the first file in it. Its `_metadata` is written last: without it there is no savepoint."""

    uri: str
    storage: Storage

    def copy_source(self, source: SourcePosition | None, checkpoints: Storage, *, inline: bool) -> SourcePosition:
        """The source position with its file in this folder, or, with `inline`, inside the manifest."""
        if source is None:
            raise CheckpointError("it is not known")
        if source.file is None or source.file.inline is not None:
            return source
        data = verify_file(checkpoints, source.file)
        if inline:
            file = StateFile("", len(data), digest(data), data)
        else:
            file = StateFile(source_path(), len(data), digest(data))
            self.storage.put_new(file.path, data)
        return SourcePosition(source.batch_id, file, source.source_uids)

    def put_metadata(self, data: bytes, wait: Callable[[float], None]) -> None:
        """Make the savepoint exist."""
        put_certain(self.storage, METADATA, data, wait)

    def clear(self) -> None:
        """Remove the files of a savepoint that was given up."""
        clear_folder(self.storage)
