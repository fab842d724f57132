"""The ids of jobs, attempts, checkpoints and subtasks."""

import re
import secrets
from typing import NewType

import msgspec

JobId = NewType("JobId", str)
"""32 hex digits, made when the job is first submitted and kept over restarts."""
Attempt = NewType("Attempt", int)
CheckpointId = NewType("CheckpointId", int)
StageId = NewType("StageId", str)
HEX_ID = re.compile(r"[0-9a-f]{32}")
"""The form of a job id, a trigger id and an operator id."""
RESERVED_PREFIX = "_timers_"
"""How the names of states begin that hold timers."""


class SubtaskId(msgspec.Struct, frozen=True, array_like=True):
    """One of the parallel instances of a stage."""

    stage: StageId
    index: int

    def __str__(self) -> str:
        return f"{self.stage}/{self.index}"


class Version(msgspec.Struct, frozen=True, array_like=True):
    """The identity of a subtask's state after an epoch. Two executions of an epoch never have the same version."""

    attempt: int
    epoch: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.attempt}.{self.epoch}.{self.nonce}"


def new_job_id() -> JobId:
    """A new job id."""
    return JobId(secrets.token_hex(16))


def new_token() -> str:
    """A new secret: the token of an attempt, 128 random bits."""
    return secrets.token_hex(16)


def new_nonce() -> str:
    """A new part of a name that must never be used twice."""
    return secrets.token_hex(6)


def new_trigger_id() -> str:
    """A new id of a requested operation: 32 hex digits."""
    return secrets.token_hex(16)
