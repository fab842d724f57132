"""`connect`, and the client that it returns."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec
import pyarrow as pa

from penstock.clock import Clock, SystemClock
from penstock.codec.json_text import json_array
from penstock.codec.tagged_json import to_plain
from penstock.control.effective_settings import load_settings
from penstock.control.inspect.state_rows import parse_key
from penstock.control.registry import registry_of
from penstock.control.remote_job import RemoteJob, ServerAddress, connect_to_job, parse_server
from penstock.control.tokens import read_token
from penstock.errors import NotReachableError, QueryRetryError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.options import rest_options
from penstock.query.answer_values import QueryResponse, StateList, decode_answer, table_of_entries, values_of
from penstock.query.http_calls import HttpCalls

Consistency = Literal["committed", "checkpointed"]
BATCH_KEYS = 1_000
"""So many keys are sent at once; the server takes no more."""
SCAN_ENTRIES = 1_000
TIMEOUT_S = 30.0
RETRY_S = 30.0
SHORTEST_PAUSE_S = 0.05


@dataclass(frozen=True)
class QueryAnswer:
    """Values, and the moment in the job's life that they are of."""

    values: list[Any]
    """In the order of the keys; None where nothing is stored."""
    epoch: int
    checkpoint: int | None
    """With `checkpointed`, the checkpoint that they are from."""


def connect(
    job: str,
    *,
    server: str | None = None,
    token: str | None = None,
    token_file: str | Path | None = None,
    retry_s: float = RETRY_S,
    registry_dir: str | Path | None = None,
) -> "StateClient":
    """A client for the queryable states of a running job.

    Args:
        job: Its id, a unique prefix of it, or its name.
        server: The control server, as `host:port` or a URL; without it, the job is found in the registry of this user.
        token: For the server. One that only reads is enough.
        token_file: A file with the token.
        retry_s: For how long a query is repeated while the job recovers or is being rescaled. 0: never.
        registry_dir: A registry in another place than the settings say.

    >>> totals = penstock.query.connect("totals")                                           # doctest: +SKIP
    >>> totals.get("totals", "ada")                                                         # doctest: +SKIP
    5.0
    """
    settings = {} if registry_dir is None else {rest_options.REGISTRY_DIRECTORY.key: str(registry_dir)}
    registry = registry_of(load_settings(Configuration(), settings).configuration)
    return StateClient(connect_to_job(registry, job, _address(server, token, token_file)), retry_s)


def _address(server: str | None, token: str | None, token_file: str | Path | None) -> ServerAddress | None:
    if server is None:
        if token is not None or token_file is not None:
            raise UsageError("a token is for a server: give server= too")
        return None
    if token is None and token_file is not None:
        token = read_token(Path(token_file))
    if not token:
        raise NotReachableError(f"{server} needs a token: give token= or token_file=")
    return ServerAddress(parse_server(server), token)


class StateClient:
    """Asks one job. Several threads may use it at a time; use it in a `with` statement, or `close` it."""

    def __init__(self, job: RemoteJob, retry_s: float = RETRY_S, clock: Clock | None = None) -> None:
        self.job_id = job.job_id
        self._job = job
        self._retry_s = retry_s
        self._clock = clock or SystemClock()
        self._calls = HttpCalls(job.server, TIMEOUT_S)
        self._pause = threading.Event()

    def get(self, state: str, key: Any, *, namespace: Any = None, consistency: Consistency = "committed") -> Any:
        """The value of a key; None if there is none, or if it has expired.

        A list state gives a list, a map state a dictionary, an aggregating state its accumulator. Of a state with
        namespaces, `namespace` selects one; without it the result is a list of (namespace, value).
        """
        return self.read(state, [key], namespace=namespace, consistency=consistency).values[0]

    def get_many(
        self, state: str, keys: Sequence[Any], *, namespace: Any = None, consistency: Consistency = "committed"
    ) -> list[Any]:
        """The values of several keys, in their order. More than 1,000 keys are asked for in parts."""
        values: list[Any] = []
        for start in range(0, len(keys), BATCH_KEYS):
            part = keys[start : start + BATCH_KEYS]
            values += self.read(state, part, namespace=namespace, consistency=consistency).values
        return values

    def read(
        self, state: str, keys: Sequence[Any], *, namespace: Any = None, consistency: Consistency = "committed"
    ) -> QueryAnswer:
        """The values of up to 1,000 keys, all from the same moment, and which moment that is."""
        answer = self._ask(state, {"keys": _plain_keys(keys)}, namespace, consistency)
        values = values_of(answer)
        if answer.namespace_type is not None and namespace is None:
            values = [None if own is None else [tuple(pair) for pair in own] for own in values]
        return QueryAnswer(values, answer.epoch, answer.checkpoint)

    def scan(self, state: str, *, limit: int = SCAN_ENTRIES, consistency: Consistency = "committed") -> pa.Table:
        """Up to `limit` entries in any order, as an Arrow table; `.to_pandas()` makes a DataFrame of it.

        Its columns are `key`, `namespace` where the state has any, and `value`; its metadata say of which epoch it is,
        and whether there are `more` entries.
        """
        return table_of_entries(self._ask(state, {"limit": limit}, None, consistency))

    def key_of(self, state: str, text: str) -> Any:
        """The key that a text names as on the command line: `5`, `ada`, `["ada", 5]`."""
        data = self._job.request("GET", f"/jobs/{self.job_id}/state")
        try:
            known = msgspec.convert(data, StateList).states
        except msgspec.ValidationError:
            raise NotReachableError("the answer is not that of a control server") from None
        for entry in known:
            if entry.queryable == state:
                return parse_key(text, entry.key_types)
        names = ", ".join(repr(entry.queryable) for entry in known if entry.queryable is not None)
        way_out = names or "none; call `set_queryable(name)` on the descriptor of a state"
        raise UsageError(f"no state of this job is queryable as {state!r}; queryable are: {way_out}")

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()
        self._job.close()

    def __enter__(self) -> "StateClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, state: str, what: dict[str, Any], namespace: Any, consistency: Consistency) -> QueryResponse:
        body: dict[str, Any] = {"state": state, "consistency": consistency, **what}
        if namespace is not None:
            body["namespace"] = to_plain(namespace)
        data = msgspec.json.encode(body)
        deadline_s = self._clock.monotonic_s() + self._retry_s
        while True:
            try:
                return decode_answer(self._calls.post(f"/jobs/{self.job_id}/queries", data))
            except QueryRetryError as error:
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0:
                    raise
                self._pause.wait(min(left_s, max(SHORTEST_PAUSE_S, error.retry_after_s)))


def _plain_keys(keys: Sequence[Any]) -> msgspec.Raw:
    plain = [key if type(key) is str else to_plain(key) for key in keys]
    return msgspec.Raw(json_array(plain))
