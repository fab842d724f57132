"""The endpoints for keyed state: the list of states, look-ups for people, and queries for programs.

Nothing here changes state. Programs find a state by the name under which the program has published it. Any other state
can be looked into with the admin token only (security S14).
"""

from dataclasses import dataclass
from typing import Any, Literal

from penstock.checkpoint.snapshot.readable_state import key_type_of
from penstock.codec.json_text import json_array
from penstock.codec.tagged_json import to_plain
from penstock.control.inspect.state_rows import parse_key
from penstock.control.state_query import RETRY_AFTER_S, StateAnswer, StateQuery, check_query, check_readable
from penstock.control.tokens import Scope
from penstock.errors import CheckpointError, RequestRefusedError, SnapshotNotFoundError, StorageError
from penstock.model.snapshot import StateSize
from penstock.rest.bodies import LookupBody, NamedLookupBody, QueryBody
from penstock.rest.endpoint import Answer, Call, Endpoint, parse_number, require_job
from penstock.runtime.process.messages import LiveState
from penstock.state.format.table_rows import key_codec_of, namespace_codec_of
from penstock.state.ttl.stamps import without_ttl

Consistency = Literal["committed", "checkpointed"]
LATEST_TRIES = 3
"""How often the newest checkpoint is looked for: it may be replaced while it is read."""


@dataclass(frozen=True)
class AnswerSource:
    """Where an answer comes from: the live state, or a snapshot."""

    consistency: Consistency = "committed"
    checkpoint: int | None = None
    """A retained checkpoint."""
    savepoint: str | None = None
    """The path of a savepoint that this job has taken."""


def list_states(call: Call) -> Answer:
    require_job(call)
    queries = call.control.job.queries
    sizes = {(size.operator_uid, size.name): size for size in queries.sizes()}
    states = sorted(queries.states(), key=lambda state: (state.info.operator_uid, state.info.name))
    found = [(state, sizes.get((state.info.operator_uid, state.info.name))) for state in states]
    return Answer(200, {"states": [{**state_view(*one), **spread(*one, call.scope)} for one in found]})


def look_up(call: Call) -> Answer:
    """GET: the key is written as on the command line."""
    require_job(call)
    state = find_state(call, call.path["operator"], call.path["state"])
    if "key" not in call.query:
        raise RequestRefusedError(400, "BAD_REQUEST", "the query parameter 'key' is missing")
    query = StateQuery((key_json(state, call.query["key"]),), namespace_json(state, call.query.get("namespace")))
    consistency = call.query.get("consistency", "committed")
    if consistency not in ("committed", "checkpointed"):
        raise RequestRefusedError(400, "BAD_REQUEST", "consistency is committed or checkpointed")
    number = call.query.get("checkpoint")
    source = AnswerSource(
        "checkpointed" if consistency == "checkpointed" else "committed",
        None if number is None else parse_number("checkpoint", number),
        call.query.get("savepoint"),
    )
    return answer_to(call, state, query, source)


def look_up_many(call: Call) -> Answer:
    require_job(call)
    body: LookupBody = call.body
    state = find_state(call, call.path["operator"], call.path["state"])
    return answer_to(call, state, query_of(body), AnswerSource(body.consistency, body.checkpoint, body.savepoint))


def look_up_named(call: Call) -> Answer:
    require_job(call)
    body: NamedLookupBody = call.body
    state = find_state(call, body.operator, body.state)
    return answer_to(call, state, query_of(body), AnswerSource(body.consistency, body.checkpoint, body.savepoint))


def query_state(call: Call) -> Answer:
    """A query of a published state, by its name."""
    require_job(call)
    body: QueryBody = call.body
    found = call.control.job.queries.published(body.state)
    if not found:
        raise RequestRefusedError(404, "NO_STATE", f"no state of this job is queryable as {body.state[:100]!r}")
    if len(found) > 1:
        owners = " and ".join(repr(state.info.operator_uid) for state in found)
        raise RequestRefusedError(409, "CONFLICT", f"operators {owners} publish a state as {body.state!r}")
    return answer_to(call, found[0], query_of(body), AnswerSource(body.consistency))


def find_state(call: Call, operator: str, name: str) -> LiveState:
    """The state that a path names."""
    for state in call.control.job.queries.states():
        if (state.info.operator_uid, state.info.name) == (operator, name):
            if state.queryable is None and call.scope != "admin":
                raise RequestRefusedError(
                    403, "FORBIDDEN", f"state {name!r} is not queryable: looking into it needs the admin token"
                )
            return state
    raise RequestRefusedError(404, "NO_STATE", f"operator {operator!r} has no keyed state {name!r}")


def query_of(body: LookupBody | QueryBody) -> StateQuery:
    """What a body asks for."""
    namespace = bytes(body.namespace) or None
    return StateQuery(tuple(map(bytes, body.keys)), namespace, body.limit)


def answer_to(call: Call, state: LiveState, query: StateQuery, source: AnswerSource) -> Answer:
    """The answer from live state or from a snapshot."""
    check_query(query)
    check_readable(state.info)
    if source.savepoint is not None or source.checkpoint is not None:
        found = _from_snapshot(call, state, query, _snapshot_path(call, source))
    elif source.consistency == "checkpointed":
        found = _from_newest_checkpoint(call, state, query)
    else:
        found = call.control.job.queries.read(state, query)
    values: dict[str, Any] = {"entries": found.values, "more": found.more} if query.limit else {"values": found.values}
    view = {
        **_types(state),
        "consistency": "committed" if found.checkpoint is None else "checkpointed",
        "epoch": found.epoch,
        "checkpoint": found.checkpoint,
    }
    return Answer(200, {**view, **values})


def _from_newest_checkpoint(call: Call, state: LiveState, query: StateQuery) -> StateAnswer:
    facts = call.control.facts
    if facts.checkpoint_dir is None:
        raise RequestRefusedError(409, "NO_CHECKPOINTS", "this job stores no checkpoints outside its own memory")
    for _ in range(LATEST_TRIES):
        number = call.control.job.record().last_checkpoint
        if number is None:
            raise RequestRefusedError(503, "NO_CHECKPOINT_YET", "no checkpoint is complete yet", RETRY_AFTER_S)
        try:
            return _from_snapshot(call, state, query, f"{facts.checkpoint_dir}/chk-{number}")
        except RequestRefusedError as error:
            if error.code != "SNAPSHOT_GONE":
                raise
    raise RequestRefusedError(503, "BUSY", "checkpoints are replaced faster than they can be read", RETRY_AFTER_S)


def _from_snapshot(call: Call, state: LiveState, query: StateQuery, path: str) -> StateAnswer:
    info = state.info
    try:
        return call.control.snapshots.read(path, info.operator_uid, info.name, query, (state.ttl_ms, call.now_ms))
    except (SnapshotNotFoundError, CheckpointError, StorageError) as error:
        raise RequestRefusedError(404, "SNAPSHOT_GONE", f"the snapshot cannot be read: {error.summary}") from error


def _snapshot_path(call: Call, source: AnswerSource) -> str:
    """Only snapshots of this job can be read: no path of a client is opened that the job does not know."""
    report = call.control.job.checkpoints()
    if source.savepoint is not None:
        if source.savepoint not in [stats.path for stats in report.savepoints if stats.path is not None]:
            raise RequestRefusedError(404, "SNAPSHOT_GONE", "this job knows no savepoint at that path")
        return source.savepoint
    folder = call.control.facts.checkpoint_dir
    if folder is None or source.checkpoint is None:
        raise RequestRefusedError(409, "NO_CHECKPOINTS", "this job stores no checkpoints outside its own memory")
    return f"{folder}/chk-{source.checkpoint}"


def key_json(state: LiveState, text: str) -> bytes:
    """A key as on the command line, as JSON."""
    codec = key_codec_of(state.info)
    try:
        key = parse_key(text, state.info.key_types)
    except Exception as error:
        raise RequestRefusedError(400, "WRONG_KEY_TYPE", str(error)) from None
    return json_array([to_plain(codec.to_user_key(key))])[1:-1]


def namespace_json(state: LiveState, text: str | None) -> bytes | None:
    """A namespace as on the command line, as JSON."""
    codec = namespace_codec_of(state.info)
    if text is None:
        return None
    if codec is None or state.info.namespace is None:
        raise RequestRefusedError(400, "NO_NAMESPACES", f"state {state.info.name!r} has no namespaces")
    try:
        namespace = parse_key(text, [state.info.namespace])
    except Exception as error:
        raise RequestRefusedError(400, "WRONG_KEY_TYPE", str(error)) from None
    return json_array([to_plain(codec.to_user_key(namespace))])[1:-1]


def state_view(state: LiveState, size: StateSize | None) -> dict[str, Any]:
    """A state in the list. Its size is that in the last checkpoint."""
    return {
        **_types(state),
        "ttl-ms": state.ttl_ms or None,
        "entries": None if size is None else size.entries,
        "entries-exact": size is not None and size.entries_exact,
        "size-bytes": None if size is None else size.size_bytes,
        "size-exact": size is not None and size.bytes_exact,
    }


def spread(state: LiveState, size: StateSize | None, scope: Scope) -> dict[str, Any]:
    """How a state is spread over key groups, and its largest keys for those who may look into it."""
    may_look = scope == "admin" or state.queryable is not None
    return {
        "group-bytes": [] if size is None else size.group_bytes,
        "largest": size.largest if size is not None and may_look else [],
    }


def _types(state: LiveState) -> dict[str, Any]:
    info = without_ttl(state.info)
    return {
        "operator": info.operator_uid,
        "state": info.name,
        "queryable": state.queryable,
        "kind": info.kind,
        "key-type": key_type_of(info.key_types).text,
        "key-types": info.key_types,
        "namespace-type": info.namespace,
        "map-key-type": info.map_key_type,
        "value-type": info.value_type,
    }


_ERRORS = (409, 413, 503)
_STATE = "/jobs/{jobid}/state"
QUERIES = Endpoint(
    "POST", "/jobs/{jobid}/queries", query_state, "read", QueryBody, (), 200, _ERRORS, "Query a queryable state."
)
STATE_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", _STATE, list_states, errors=_ERRORS, summary="The keyed states."),
    Endpoint("POST", _STATE, look_up_named, "read", NamedLookupBody, (), 200, _ERRORS, "Values of a keyed state."),
    Endpoint(
        "GET",
        _STATE + "/{operator}/{state}",
        look_up,
        query=("key", "namespace", "consistency", "checkpoint", "savepoint"),
        errors=_ERRORS,
        summary="The value of a key.",
    ),
    Endpoint(
        "POST", _STATE + "/{operator}/{state}", look_up_many, "read", LookupBody, (), 200, _ERRORS, "Values of a state."
    ),
    QUERIES,
)
