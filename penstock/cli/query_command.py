"""`penstock query`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from penstock.cli.flags import DEFAULT_LIMIT, DebugFlag, JsonFlag, SettingsFlag
from penstock.cli.job_target import JobTarget, OptionalJob, ServerFlag, TokenFileFlag, require_job
from penstock.control.terminal import print_result, table
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.query.state_client import StateClient


def query(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job: OptionalJob = None,
    state: Annotated[str | None, typer.Argument(metavar="STATE", help="The name under which it is queryable.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="K", help="A key. Can be repeated; without one, a scan.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, max=10_000, help=f"Entries of a scan; {DEFAULT_LIMIT} unless given.")
    ] = None,
    consistency: Annotated[
        str, typer.Option("--consistency", metavar="committed|checkpointed", help="Which moment to read.")
    ] = "committed",
    retry: Annotated[
        float, typer.Option("--retry", metavar="SECONDS", min=0.0, help="Ask again while the job recovers.")
    ] = 10.0,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Read queryable state of a running job."""
    name = require_job(job, "query it")
    if not state:
        raise UsageError("Missing STATE: the name that the program has given to set_queryable or as_queryable_state.")
    if consistency not in ("committed", "checkpointed"):
        raise UsageError(f"--consistency {consistency!r} is not committed or checkpointed")
    if key and limit is not None:
        raise UsageError("--limit is for a scan, without --key")
    level = cast(Literal["committed", "checkpointed"], consistency)
    from penstock.query.state_client import StateClient  # most commands need no HTTP

    with StateClient(JobTarget(settings, server, token_file).connect(name), retry) as client:
        if key:
            _print_values(client, state, key, level)
        else:
            _print_entries(client, state, limit or DEFAULT_LIMIT, level)


def _print_values(
    client: "StateClient", state: str, texts: list[str], level: Literal["committed", "checkpointed"]
) -> None:
    from penstock.cli.state_commands import cell_text
    from penstock.codec.tagged_json import to_plain

    answer = client.read(state, [client.key_of(state, text) for text in texts], consistency=level)
    pairs = list(zip(texts, answer.values, strict=True))
    rows = [[cell_text(text), "-" if value is None else cell_text(repr(value))] for text, value in pairs]
    found = [{"key": text, "value": to_plain(value)} for text, value in pairs]
    document: dict[str, Any] = {"state": state, "consistency": level, "epoch": answer.epoch, "values": found}
    print_result(table(("KEY", "VALUE"), rows), document | {"checkpoint": answer.checkpoint})


def _print_entries(client: "StateClient", state: str, limit: int, level: Literal["committed", "checkpointed"]) -> None:
    from penstock.cli.state_commands import cell_text
    from penstock.codec.tagged_json import to_plain

    found = client.scan(state, limit=limit, consistency=level)
    metadata = {name.decode(): value.decode() for name, value in (found.schema.metadata or {}).items()}
    more = metadata.get("more") == "true"
    rows = found.to_pylist()
    text = table([name.upper() for name in found.column_names], [[cell_text(v) for v in row.values()] for row in rows])
    if more:
        text += f"\n… there are more entries; --limit {limit} is the limit"
    entries = [{name: to_plain(value) for name, value in row.items()} for row in rows]
    document = {"state": state, "consistency": level, "epoch": int(metadata["epoch"]), "entries": entries, "more": more}
    print_result(text if rows else "no entries", document)
