"""Request bodies: JSON objects with known fields, each at most once (security S11)."""

import json
from typing import Any, Literal, TypeVar

import msgspec

from penstock.errors import RequestRefusedError

MAX_BODY_BYTES = 1 << 20
MESSAGE_CHARS = 300


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing, or an empty object."""


class SavepointBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /jobs/:jobid/savepoints."""

    target_directory: str | None = msgspec.field(default=None, name="target-directory")
    cancel_job: bool | None = msgspec.field(default=None, name="cancel-job")
    format_type: str | None = msgspec.field(default=None, name="formatType")
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class StopBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /jobs/:jobid/stop. As in Flink, the field for the folder has another name than in SavepointBody."""

    target_directory: str | None = msgspec.field(default=None, name="targetDirectory")
    drain: bool | None = None
    format_type: str | None = msgspec.field(default=None, name="formatType")
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class CheckpointBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /jobs/:jobid/checkpoints."""

    checkpoint_type: str | None = msgspec.field(default=None, name="checkpointType")
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class LookupBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /jobs/:jobid/state/:operator/:state."""

    keys: list[msgspec.Raw] = []
    namespace: msgspec.Raw = msgspec.Raw()
    limit: int = 0
    consistency: Literal["committed", "checkpointed"] = "committed"
    checkpoint: int | None = None
    savepoint: str | None = None


class NamedLookupBody(LookupBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """POST /jobs/:jobid/state: for names that do not fit into a path."""

    operator: str
    state: str


class QueryBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /jobs/:jobid/queries."""

    state: str
    keys: list[msgspec.Raw] = []
    namespace: msgspec.Raw = msgspec.Raw()
    limit: int = 0
    consistency: Literal["committed", "checkpointed"] = "committed"


class LoginCodeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /login-codes."""

    scope: Literal["read", "admin"] = "admin"


class RescaleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PATCH /jobs/:jobid/rescaling. As in Flink, the parallelism is in the query."""

    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class ParallelismBounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Within which the parallelism of a vertex has to be."""

    lower_bound: int = msgspec.field(name="lowerBound")
    upper_bound: int = msgspec.field(name="upperBound")


class VertexRequirements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PUT /jobs/:jobid/resource-requirements: an object with one of these by the id of each vertex."""

    parallelism: ParallelismBounds


class DisposalBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /savepoint-disposal."""

    savepoint_path: str = msgspec.field(name="savepoint-path")
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


Body = TypeVar("Body")


def decode_body(data: bytes, kind: type[Body]) -> Body:
    """The decoded body; an error names the field. Every field has a type, so a wrong one ends the decoding at once."""
    text = data or b"{}"
    try:
        body = msgspec.json.decode(text, type=kind)
        # msgspec keeps the last of two equal fields. This finds them, also in objects within the body.
        _strict.decode(text.decode())
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RequestRefusedError(400, "BAD_REQUEST", f"the body is not valid: {str(error)[:MESSAGE_CHARS]}") from None
    return body


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field occurs twice - at `$.{name}`")
        found[name] = value
    return found


_strict = json.JSONDecoder(object_pairs_hook=_unique)
