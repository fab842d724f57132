"""Options of standby drivers (`--ha`) and of `penstock supervise`."""

from penstock.model.option import Option
from penstock.model.option_types import Integer, Milliseconds, OptionalText

HA_TIMEOUT = Option(
    "penstock.ha.timeout",
    Milliseconds(least=500),
    10_000,
    "A standby takes the job over when the driver has renewed nothing in the `--ha` folder for this time. The driver "
    "renews it five times as often. Too short a time costs a needless takeover, never a wrong result.",
)
HA_FILES: Option[str | None] = Option(
    "penstock.ha.files",
    OptionalText(),
    None,
    "More files that `--ha` stores with the program: patterns such as `schemas/*.json`, relative to the program's "
    "folder, separated by `;`. The program and the modules that it imports from its folder are always stored.",
)
SUPERVISE_RESTARTS = Option(
    "penstock.supervise.max-restarts",
    Integer(least=0),
    10,
    "How many times `penstock supervise` starts the driver again within `penstock.supervise.window`.",
)
SUPERVISE_WINDOW = Option(
    "penstock.supervise.window",
    Milliseconds(least=1),
    3_600_000,
    "The time in which `penstock supervise` counts its restarts.",
)
SUPERVISE_BACKOFF = Option(
    "penstock.supervise.backoff",
    Milliseconds(),
    1_000,
    "How long `penstock supervise` waits before a restart. Each further restart within the window waits twice as long.",
)
SUPERVISE_MAX_BACKOFF = Option(
    "penstock.supervise.max-backoff",
    Milliseconds(),
    60_000,
    "The longest wait before a restart by `penstock supervise`.",
)
