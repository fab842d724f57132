"""Writes docs/reference/errors.md from penstock/errors.py: every error, its exit code, and the codes in messages.

    python scripts/error_reference.py            # writes the page
    python scripts/error_reference.py --check    # fails if it is not what it would write

It fails, and names the code, if the package uses a code that has no meaning here, or if one here is used nowhere.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from penstock import errors  # noqa: E402
from scripts.generated import mark, write_or_check  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "errors.md"
EXIT_CODES = {
    0: "success; also the second cancel of a job that is cancelled already",
    1: "the job or the operation failed",
    2: "usage error: the program, the command or the configuration cannot work as written",
    3: "no such job, snapshot, file or folder, or the job has ended",
    4: "conflict: another savepoint is in progress, several jobs match, or a newer driver owns the job",
    5: "data is damaged, missing, or does not fit the program",
    6: "the control server does not answer, or does not accept the token",
    130: "interrupted (Ctrl-C); jobs of the program are [suspended](../how-to/stop-and-resume-a-job.md)",
    143: "ended by SIGTERM; the same",
}
SNAPSHOT_CODES = {
    "NOT_A_SAVEPOINT": "nothing at the path, a folder without `_metadata`, or another kind of file (exit code 3)",
    "NOT_A_CHECKPOINT": "the job's log has no such completed checkpoint, or it has been discarded",
    "CHANGED_SNAPSHOT": "the path holds a different snapshot from the one the job started from",
    "NOT_A_MANIFEST": "`_metadata` does not begin like a manifest",
    "UNSUPPORTED_VERSION": "written by a newer release; the message has `have=` and `max=`",
    "CORRUPT_MANIFEST": "truncated, extended, duplicate keys, impossible sizes or hashes, or not the log's sha256",
    "PATH_OUTSIDE_ROOT": "a file path that is absolute, goes up, has a scheme, or is a link",
    "BAD_KEY_GROUPS": "the ranges of key groups have gaps or overlap",
    "DUPLICATE_STATE": "a state, file or subtask is listed twice",
    "BROKEN_CHAIN": "numbers go backwards, or the log has holes",
    "LIMIT_EXCEEDED": "more than 64 MiB, a million files, or nested too deeply; found before it is decoded",
    "UNKNOWN_SERIALIZER": "a type that this release does not know",
    "PICKLE_DISABLED": "pickled state that the program does not declare as pickled",
    "MISSING_FILE": "a file of the snapshot does not exist",
    "CORRUPT_FILE": "a file of the snapshot is not what the manifest says",
    "MISSING_IDENTITY": "checkpoints without a job log",
    "WRONG_JOB": "a job's folder holds the checkpoints of another job (exit code 4)",
    "UNMAPPED_STATE": "state, a source position or output that has no place in the program; the message has `op=`",
    "UNMAPPED_SOURCES": "source positions that cannot be told apart",
    "UNCOMMITTED_OUTPUT": "output of another job's checkpoint that cannot be committed: "
    "[sinks](restore.md#which-state-goes-where)",
    "INCOMPATIBLE_STATE": "a state's type changed and no rule covers it: [schema evolution](schema-evolution.md)",
}
REQUEST_CODES = {
    "BAD_REQUEST": "a path, parameter, header or body that is not valid",
    "NO_SAVEPOINT_DIRECTORY": "no target folder in the request, and `execution.checkpointing.savepoint-dir` is not set",
    "UNAUTHORIZED": "no token, or a wrong one; also a token in the URL",
    "FORBIDDEN": "the token only reads, or the request comes from a web page of another origin",
    "NOT_FOUND": "no such path, job or operation",
    "NO_STATE": "no such keyed state, or none that is queryable under that name",
    "SNAPSHOT_GONE": "the job has no such checkpoint or savepoint, or it was removed meanwhile",
    "WRONG_KEY_TYPE": "a key or namespace that does not have the type of the state's",
    "NO_NAMESPACES": "a namespace for a state that has none",
    "NOT_READABLE": "the values of the state are pickles, which are never read for a query",
    "LIMIT_TOO_LARGE": "a scan of more entries than one answer may have",
    "TOO_MANY_KEYS": "a query of more keys than one may have",
    "KEY_TOO_LARGE": "a key or namespace that is too long",
    "ANSWER_TOO_LARGE": "the values are too large for one answer: ask for fewer keys",
    "NOT_QUERYABLE": "a state backend without queries of live state, or a state that no function has declared yet",
    "NO_CHECKPOINTS": "the job keeps no checkpoints outside its own memory",
    "JOB_ENDED": "the job has ended; its checkpoints still have its state",
    "NOT_READY": "the job starts, recovers or is being rescaled: ask again after `Retry-After` seconds",
    "EPOCH_ENDS": "an epoch is being finished, and takes long: ask again",
    "BUSY": "too many queries at a time: ask again",
    "NO_CHECKPOINT_YET": "no checkpoint is complete yet: ask again",
    "METHOD_NOT_ALLOWED": "the path exists, but not for this method",
    "TIMEOUT": "the body did not arrive in time",
    "CONFLICT": "another savepoint is in progress, or the job has ended",
    "TOO_LARGE": "the body or the headers exceed the limit",
    "UNSUPPORTED_MEDIA_TYPE": "the body is not JSON, or it is compressed",
    "MISDIRECTED": "the `Host` header is not a name of this server",
    "MOVED": "`PATCH …?mode=stop`, which Flink has removed too: use `POST /jobs/:jobid/stop`",
    "INTERNAL": "a bug; `driver.log` has more under the request id",
    "UNAVAILABLE": "the job cannot do this now",
    "TOO_MANY_STREAMS": "16 pages or programs follow the events of this job already",
    "TOO_MANY_OPERATIONS": "too many operations whose results nobody has fetched",
}
_CITATION = re.compile(r" ?\((?:PROTOCOL|features|reliability|security|DESIGN|STYLE) [^)]*\)")
_CODE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
_CARRIERS = {"CheckpointCorruptError", "SnapshotNotFoundError", "SnapshotRefusedError", "RequestRefusedError"}
_OTHER_WORDS = {"IN_PROGRESS", "COMPLETED_CHECKPOINT"}


def main(arguments: list[str]) -> int:
    """Write or check the page; the exit code."""
    used, statuses = codes_in(ROOT / "penstock")
    known = {**SNAPSHOT_CODES, **REQUEST_CODES}
    problems = [f"{code} is used in the package and has no meaning here" for code in sorted(used - set(known))]
    problems += [f"{code} has a meaning here and is used nowhere" for code in sorted(set(known) - used)]
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    return write_or_check({PAGE: page(statuses)}, arguments, "the reference of errors")


def codes_in(package: Path) -> tuple[set[str], dict[str, set[int]]]:
    """The codes that the package uses, and the HTTP statuses of those of the control server."""
    used: set[str] = {kind.code for kind in classes() if kind.code}
    statuses: dict[str, set[int]] = {}
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        used |= {code for code in (*SNAPSHOT_CODES, *REQUEST_CODES) if any(text.startswith(code) for text in texts)}
        if any(isinstance(node, ast.ImportFrom) and _imports_carrier(node) for node in ast.walk(tree)):
            used |= {text for text in texts if _CODE.fullmatch(text)} - _OTHER_WORDS
        for status, code in _refusals(tree):
            used.add(code)
            statuses.setdefault(code, set()).add(status)
    return used, statuses


def _imports_carrier(node: ast.ImportFrom) -> bool:
    return node.module == "penstock.errors" and bool(_CARRIERS & {alias.name for alias in node.names})


def _refusals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Status and code wherever both stand side by side in a call, or the code is `error.code or "…"`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        for left, right in zip(node.args, node.args[1:], strict=False):
            code = right.values[-1] if isinstance(right, ast.BoolOp) else right
            if isinstance(left, ast.Constant) and type(left.value) is int and isinstance(code, ast.Constant):
                if isinstance(code.value, str) and re.fullmatch(r"[A-Z_]{4,}", code.value) and left.value >= 300:
                    yield left.value, code.value


def classes() -> list[type[errors.PenstockError]]:
    """Every error, each parent followed by its children."""
    return _below(errors.PenstockError)


def _below(kind: type[errors.PenstockError]) -> list[type[errors.PenstockError]]:
    own = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [kind, *(found for child in own for found in _below(child))]


ABOUT = """
Every error that Penstock raises on purpose is a `penstock.errors.PenstockError`. Its message says what failed, what was
found, what was expected, and what to do. A command prints `error: …` on stderr and ends with the error's exit code;
`--json` makes it a document, and `--debug` adds the traceback.
"""
ABOUT_CLASSES = """
`└` marks a subclass. In a running job the [restart strategy](checkpointing.md#restart-strategies) decides what follows
an error. Only these end the job at once, because another attempt would meet them again: `UsageError`, `FencedError`,
`JobConflictError`, `SinkTransactionLostError`, `SourceFileLostError`, `OutputIncompleteError`, `CheckpointError`, and
their subclasses except `CheckpointFailedError`.
"""
ABOUT_SNAPSHOTS = """
A message about a savepoint, a checkpoint or the state in it carries one of these codes, so that programs can tell them
apart. The exit code is 5 unless the table says otherwise.
"""
ABOUT_REQUESTS = """
An error of the [control server](rest-api.md) is `{"errors": [message], "code", "request_id"}`. If the error behind it
has a code of its own, the answer carries that one.
"""


def page(statuses: dict[str, set[int]]) -> str:
    """The whole page."""
    requests = sorted(REQUEST_CODES.items(), key=lambda item: (min(statuses[item[0]]), item[0]))
    by_status = [f"| `{code}` | {_numbers(statuses[code])} | {text} |" for code, text in requests]
    parts = [
        mark("error_reference.py"),
        "# Errors and exit codes",
        ABOUT.strip(),
        "## Exit codes",
        _table("| code | meaning |", [f"| {code} | {text} |" for code, text in EXIT_CODES.items()]),
        "## Classes",
        ABOUT_CLASSES.strip(),
        _table("| class | exit code | meaning |", [_class_row(kind) for kind in classes()]),
        "## Codes of snapshots and restores",
        ABOUT_SNAPSHOTS.strip(),
        _table("| code | meaning |", [f"| `{code}` | {text} |" for code, text in SNAPSHOT_CODES.items()]),
        "## Codes of the control server",
        ABOUT_REQUESTS.strip(),
        _table("| code | HTTP status | meaning |", by_status),
    ]
    return "\n\n".join(parts) + "\n"


def _class_row(kind: type[errors.PenstockError]) -> str:
    return f"| {_depth(kind)}`{kind.__name__}` | {kind.exit_code} | {_about(kind)} |"


def _numbers(found: set[int]) -> str:
    return ", ".join(map(str, sorted(found)))


def _table(head: str, rows: list[str]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])


def _depth(kind: type) -> str:
    level = len([base for base in kind.__mro__ if issubclass(base, errors.PenstockError)]) - 1
    return "&nbsp;" * 4 * max(level - 1, 0) + ("└ " if level else "")


def _about(kind: type[errors.PenstockError]) -> str:
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    text = _CITATION.sub("", text).rstrip(".")
    return text + (f"; code `{kind.code}`" if kind.code else "")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
