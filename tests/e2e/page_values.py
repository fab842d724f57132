"""What the page of checkpoints must show of the figures that REST gives (features T1 to T5).

The texts of figures are made here a second time, in Python, from their description in `texts.js`.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

NONE = "–"
NO_CHANGELOG = "Not available: there is no state changelog"
SPREAD = {
    "Minimum": "min",
    "Average": "avg",
    "Maximum": "max",
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p99.9": "p999",
}
READ = """() => {
  const cards = {}, tables = {}, text = (node) => node.textContent.trim();
  for (const list of document.querySelectorAll('main dl')) {
    const title = list.closest('section')?.querySelector('h2')?.textContent ?? '';
    for (const pair of list.children) (cards[title] ??= {})[text(pair.children[0])] = text(pair.children[1]);
  }
  for (const table of document.querySelectorAll('main section > .scroll table')) {
    const heads = [...table.tHead.rows[0].cells].map(text);
    const undated = (cell) => text(cell).replace(/^\\d{4}-\\d\\d-\\d\\d (?=\\d\\d:)/, '');
    const named = (row) => Object.fromEntries([...row.cells].map((cell, at) => [heads[at], undated(cell)]));
    tables[text(table.caption)] = [...table.tBodies[0].rows].map(named);
  }
  return { cards, tables };
}"""


def read_page(page: "Page") -> Any:
    """The labels with their values by card, and the rows of tables by caption. Times in tables are without a date."""
    return page.evaluate(READ)


# ---- figures


def rounded(value: float, places: str) -> str:
    """As JavaScript rounds: halves go up."""
    return str(Decimal(value).quantize(Decimal(places), ROUND_HALF_UP))


def size(count: int | None) -> str:
    """
    >>> size(1023), size(1024), size(10 * 1024 * 1024), size(-1)
    ('1023 B', '1.0 KiB', '10 MiB', '–')
    """
    if count is None or count < 0:
        return NONE
    value, unit = float(count), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return (
        f"{count if unit == 0 else rounded(value, '0.1' if value < 10 else '1')} {('B KiB MiB GiB TiB').split()[unit]}"
    )


def duration(ms: int | None) -> str:
    """
    >>> duration(0), duration(1250), duration(90_000), duration(7_200_000)
    ('0 ms', '1.3 s', '1 min 30 s', '2 h 0 min')
    """
    if ms is None or ms < 0:
        return NONE
    if ms < 60_000:
        return f"{ms} ms" if ms < 1000 else f"{rounded(ms / 1000, '0.1')} s"
    minutes, seconds = divmod(ms // 1000, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def moment(ms: int | None) -> str:
    """A date and a time of this machine."""
    if ms is None or ms < 0:
        return NONE
    return f"{datetime.fromtimestamp(ms // 1000):%Y-%m-%d %H:%M:%S}.{ms % 1000:03}"


def time_of_day(ms: int | None) -> str:
    """The same without the date, which tables leave out if it is today's."""
    return moment(ms).rpartition(" ")[2]


def acknowledged(found: dict[str, Any]) -> str:
    part, whole = found["num_acknowledged_subtasks"], found["num_subtasks"]
    return f"{part}/{whole} ({100 * part // whole}%)" if whole else NONE


def in_flight(found: dict[str, Any]) -> str:
    return f"{size(found['processed_data'])} ({size(found['persisted_data'])})"


def ended(found: dict[str, Any]) -> str:
    return moment(found["trigger_timestamp"] + found["end_to_end_duration"])


# ---- the page of all checkpoints


def checkpoints_page(found: dict[str, Any], config: dict[str, Any]) -> Any:
    """T1, T2, T4, T5: what `/checkpoints` and `/checkpoints/config` give."""
    counts = found["counts"]
    cards = {
        "": {
            "Triggered": f"{counts['total']:,}",
            "In Progress": f"{counts['in_progress']:,}",
            "Completed": f"{counts['completed']:,}",
            "Failed": f"{counts['failed']:,}",
            "Restored": f"{counts['restored']:,}",
        },
        **{name: labels for name, labels in latest(found["latest"]).items() if labels},
        "Configuration": configuration(config),
    }
    figures: dict[str, tuple[str, Callable[[int], str]]] = {
        "End to End Duration": ("end_to_end_duration", duration),
        "Checkpointed Data Size": ("checkpointed_size", size),
        "Full Checkpoint Data Size": ("state_size", size),
        "Processed in-flight data": ("processed_data", size),
        "Persisted in-flight data": ("persisted_data", size),
    }
    summary = [
        {"Figure": label, **{name: text(found["summary"][figure][key]) for name, key in SPREAD.items()}}
        for label, (figure, text) in figures.items()
    ]
    tables = {
        "The last checkpoints, newest first": [history_row(one) for one in found["history"]],
        "Summary of completed checkpoints": summary,
    }
    return {"cards": cards, "tables": tables}


def latest(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The four cards; empty for one of which there is none."""
    completed, failed, savepoint, restored = (found[name] for name in ("completed", "failed", "savepoint", "restored"))
    sizes = {"Checkpointed Data Size": "checkpointed_size", "Full Checkpoint Data Size": "state_size"}
    return {
        "Latest Completed Checkpoint": completed
        and {
            "ID": str(completed["id"]),
            "Completion Time": ended(completed),
            "End to End Duration": duration(completed["end_to_end_duration"]),
            **{label: size(completed[key]) for label, key in sizes.items()},
        },
        "Latest Failed Checkpoint": failed
        and {
            "ID": str(failed["id"]),
            "Failure Time": moment(failed["failure_timestamp"]),
            "Cause": failed["failure_message"],
        },
        "Latest Savepoint": savepoint
        and {
            "ID": str(savepoint["id"]),
            "Completion Time": ended(savepoint),
            **{label: size(savepoint[key]) for label, key in sizes.items()},
            "Savepoint Format": savepoint["savepointFormat"],
            "Path": savepoint["external_path"],
        },
        "Latest Restore": restored
        and {
            "ID": str(restored["id"]),
            "Restore Time": moment(restored["restore_timestamp"]),
            "Type": "Savepoint" if restored["is_savepoint"] else "Checkpoint",
            "Path": restored["external_path"] or NONE,
        },
    }


def history_row(found: dict[str, Any]) -> dict[str, str]:
    return {
        "ID": str(found["id"]),
        "Status": found["status"].replace("_", " ") + (" Savepoint" if found["is_savepoint"] else ""),
        "Acknowledged": acknowledged(found),
        "Trigger Time": time_of_day(found["trigger_timestamp"]),
        "Latest Acknowledgement": time_of_day(found["latest_ack_timestamp"]),
        "End to End Duration": duration(found["end_to_end_duration"]),
        "Checkpointed Data Size": size(found["checkpointed_size"]),
        "Full Checkpoint Data Size": size(found["state_size"]),
        "Processed (persisted) in-flight data": in_flight(found),
    }


def configuration(config: dict[str, Any]) -> dict[str, str]:
    outside = config["externalization"]
    kept = "delete" if outside["delete_on_cancellation"] else "retain"
    enabled = {True: "Enabled", False: "Disabled"}
    return {
        "Checkpointing Mode": {"exactly_once": "Exactly Once", "at_least_once": "At Least Once"}[config["mode"]],
        "Checkpoint Storage": config["checkpoint_storage"],
        "State Backend": config["state_backend"],
        "Interval": duration(config["interval"]),
        "Timeout": duration(config["timeout"]),
        "Minimum Pause Between Checkpoints": duration(config["min_pause"]),
        "Maximum Concurrent Checkpoints": str(config["max_concurrent"]),
        "Unaligned Checkpoints": enabled[config["unaligned_checkpoints"]],
        "Aligned checkpoint timeout": duration(config["aligned_checkpoint_timeout"]),
        "Persist Checkpoints Externally": f"Enabled ({kept} on cancellation)" if outside["enabled"] else "Disabled",
        "Tolerable Failed Checkpoints": str(config["tolerable_failed_checkpoints"]),
        "Checkpoints With Finished Tasks": enabled[config["checkpoints_after_tasks_finish"]],
        "State Changelog": enabled[config["state_changelog_enabled"]],
        "Changelog Storage": config["changelog_storage"] or NO_CHANGELOG,
        "Changelog Periodic Materialization Interval": NO_CHANGELOG,
    }


# ---- the page of one checkpoint


def checkpoint_page(found: dict[str, Any], tasks: Sequence[dict[str, Any]], names: Sequence[str]) -> Any:
    """T3: what `/checkpoints/details/:id` and its `/subtasks/:vertex` give."""
    title = f"{'Savepoint' if found['is_savepoint'] else 'Checkpoint'} {found['id']}"
    is_kept = found.get("external_path") and not found.get("discarded")
    labels = {
        "Status": found["status"].replace("_", " "),
        "Trigger Time": moment(found["trigger_timestamp"]),
        "End to End Duration": duration(found["end_to_end_duration"]),
        "Acknowledged": acknowledged(found),
        "Latest Acknowledgement": moment(found["latest_ack_timestamp"]),
        "Checkpointed Data Size": size(found["checkpointed_size"]),
        "Full Checkpoint Data Size": size(found["state_size"]),
        "Processed (persisted) in-flight data": in_flight(found),
        "Checkpoint Type": found["checkpoint_type"],
        "Savepoint Format": found["savepointFormat"] or NONE,
        "Discarded": {None: NONE, True: "yes", False: "no"}[found.get("discarded")],
        "Failure Message": found.get("failure_message") or NONE,
        "Path": found.get("external_path") or NONE,
        "Manifest": "Download" if is_kept else NONE,
    }
    tables = {f"Subtasks of {name}": subtask_rows(task) for name, task in zip(names, tasks, strict=True)}
    return {"cards": {title: labels}, "tables": tables}


def subtask_rows(task: dict[str, Any]) -> list[dict[str, str]]:
    """The spread over those that have acknowledged, and each subtask."""
    done = any(part["status"] == "completed" for part in task["subtasks"])
    spread = [spread_row(name, task["summary"], SPREAD[name]) for name in ("Minimum", "Average", "Maximum") if done]
    return [*spread, *map(subtask_row, task["subtasks"])]


def spread_row(name: str, summary: dict[str, Any], key: str) -> dict[str, str]:
    alignment, times = summary["alignment"], summary["checkpoint_duration"]
    return {
        "ID": name,
        "Acknowledged": "",
        "End to End Duration": duration(summary["end_to_end_duration"][key]),
        "Checkpointed Data Size": size(summary["checkpointed_size"][key]),
        "Full Checkpoint Data Size": size(summary["state_size"][key]),
        "Sync Duration": duration(times["sync"][key]),
        "Async Duration": duration(times["async"][key]),
        "Processed (persisted) Data": f"{size(alignment['processed'][key])} ({size(alignment['persisted'][key])})",
        "Alignment Duration": duration(alignment["duration"][key]),
        "Start Delay": duration(summary["start_delay"][key]),
        "Unaligned Checkpoint": "",
    }


def subtask_row(part: dict[str, Any]) -> dict[str, str]:
    if part["status"] != "completed":
        return {"ID": str(part["index"]), "Acknowledged": "not acknowledged"}
    alignment = part["alignment"]
    return {
        "ID": str(part["index"]),
        "Acknowledged": time_of_day(part["ack_timestamp"]),
        "End to End Duration": duration(part["end_to_end_duration"]),
        "Checkpointed Data Size": size(part["checkpointed_size"]),
        "Full Checkpoint Data Size": size(part["state_size"]),
        "Sync Duration": duration(part["checkpoint"]["sync"]),
        "Async Duration": duration(part["checkpoint"]["async"]),
        "Processed (persisted) Data": f"{size(alignment['processed'])} ({size(alignment['persisted'])})",
        "Alignment Duration": duration(alignment["duration"]),
        "Start Delay": duration(part["start_delay"]),
        "Unaligned Checkpoint": "yes" if part["unaligned_checkpoint"] else "no",
    }
