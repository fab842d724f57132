"""Names of part files. A name says what the file is and who owns it, so no other record is needed.

A part goes through three names in the sink's folder, and leaves a fourth behind:

    .inprogress-<part>   being written; may be truncated, and is useless after a crash
    .pending-<part>      complete and on disk; belongs to a checkpoint that may still fail
    part-<sink>-<subtask>-<nonce>.json      finished; what readers see
    .committed-<part>    an empty marker: publishing has begun, and has ended if the pending file is gone

where <part> is `<job id>-<attempt>-<sink>-<subtask>-<nonce>`: the name of the transaction. <sink> is a hash of the
sink's uid, which may hold any character.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from urllib.parse import quote

from penstock.model.ids import new_nonce
from penstock.model.sink import SinkContext

IN_PROGRESS = "inprogress"
PENDING = "pending"
COMMITTED = "committed"

_HIDDEN = re.compile(
    rf"\.(?P<state>{IN_PROGRESS}|{PENDING}|{COMMITTED})-(?P<job>.+)-(?P<attempt>\d+)"
    r"-(?P<sink>[0-9a-f]{12})-(?P<subtask>\d+)-(?P<nonce>[0-9a-f]+)"
)


@dataclass(frozen=True)
class PartName:
    """The identity of a part, unique because of its nonce."""

    job: str
    attempt: int
    sink: str
    subtask: int
    nonce: str

    @property
    def transaction(self) -> str:
        """The name of the part's transaction."""
        return f"{self.job}-{self.attempt}-{self.sink}-{self.subtask}-{self.nonce}"

    def hidden(self, state: str) -> str:
        """The name of the part's file in one of the hidden states."""
        return f".{state}-{self.transaction}"

    def renamed(self, nonce: str) -> "PartName":
        """A part of the same writer with another nonce."""
        return replace(self, nonce=nonce)

    def finished(self, prefix: str, suffix: str) -> str:
        """The name under which readers see the part."""
        return f"{prefix}-{self.sink}-{self.subtask}-{self.nonce}{suffix}"


def new_part_name(context: SinkContext) -> PartName:
    """A name that no part has had before."""
    return PartName(
        escape(context.job_id), context.attempt, sink_hash(context.sink_uid), context.subtask.index, new_nonce()
    )


def parse_hidden(name: str) -> tuple[str, PartName] | None:
    """The state and the part of a hidden file's name, or None for a file that no FileSink has made.

    >>> parse_hidden(".pending-ab12-3-0123456789ab-0-9f")
    ('pending', PartName(job='ab12', attempt=3, sink='0123456789ab', subtask=0, nonce='9f'))
    >>> parse_hidden("part-0123456789ab-0-9f.json") is None
    True
    """
    match = _HIDDEN.fullmatch(name)
    if match is None:
        return None
    part = PartName(match["job"], int(match["attempt"]), match["sink"], int(match["subtask"]), match["nonce"])
    return match["state"], part


def sink_hash(sink_uid: str) -> str:
    """Twelve hex digits that stand for the sink in file names."""
    return hashlib.sha256(sink_uid.encode()).hexdigest()[:12]


def escape(job_id: str) -> str:
    """The job id as part of a file name: 32 hex digits stay as they are."""
    return quote(job_id, safe="").replace(".", "%2E")
