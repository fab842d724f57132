"""Options of the restart strategy: when and how often a failed job is started again."""

from penstock.model.option import Option
from penstock.model.option_types import INFINITE, Attempts, Integer, Milliseconds, Number, Word

PREFIX = "restart-strategy."
_FIXED = PREFIX + "fixed-delay."
_RATE = PREFIX + "failure-rate."
_EXPONENTIAL = PREFIX + "exponential-delay."

STRATEGY: Option[str | None] = Option(
    PREFIX + "type",
    Word(
        ("none", "fixed-delay", "failure-rate", "exponential-delay"),
        {
            "off": "none",
            "disable": "none",
            "fixeddelay": "fixed-delay",
            "failurerate": "failure-rate",
            "exponentialdelay": "exponential-delay",
        },
    ),
    None,
    "When a failed job is started again. `off` and `disable` are other words for `none`.",
    old_keys=("restart-strategy",),
    default_text="`exponential-delay` with checkpoints, `none` without",
)
FIXED_DELAY_ATTEMPTS = Option(
    _FIXED + "attempts", Integer(least=0), 1, "`fixed-delay`: how often a failed job is started again."
)
FIXED_DELAY = Option(_FIXED + "delay", Milliseconds(), 1000, "`fixed-delay`: the pause before each restart.")
MAX_FAILURES = Option(
    _RATE + "max-failures-per-interval",
    Integer(least=0),
    1,
    "`failure-rate`: how many failures within the interval the job survives.",
)
FAILURE_INTERVAL = Option(
    _RATE + "failure-rate-interval",
    Milliseconds(),
    60_000,
    "`failure-rate`: the interval in which failures are counted.",
)
FAILURE_DELAY = Option(_RATE + "delay", Milliseconds(), 1000, "`failure-rate`: the pause before each restart.")
INITIAL_BACKOFF = Option(
    _EXPONENTIAL + "initial-backoff",
    Milliseconds(least=1),
    1000,
    "`exponential-delay`: the pause before the first restart.",
)
MAX_BACKOFF = Option(
    _EXPONENTIAL + "max-backoff", Milliseconds(least=1), 60_000, "`exponential-delay`: the longest pause."
)
BACKOFF_MULTIPLIER = Option(
    _EXPONENTIAL + "backoff-multiplier",
    Number(least=1),
    1.5,
    "`exponential-delay`: by how much the pause grows with each failure. It must be more than 1.",
)
RESET_THRESHOLD = Option(
    _EXPONENTIAL + "reset-backoff-threshold",
    Milliseconds(),
    3_600_000,
    "`exponential-delay`: after this time without a failure, the pause starts from the beginning.",
)
JITTER_FACTOR = Option(
    _EXPONENTIAL + "jitter-factor",
    Number(least=0, most=1),
    0.1,
    "`exponential-delay`: up to this part of the pause is added or subtracted at random.",
)
EXPONENTIAL_ATTEMPTS = Option(
    _EXPONENTIAL + "attempts-before-reset-backoff",
    Attempts(),
    INFINITE,
    "`exponential-delay`: how often the job is started again before it fails, unless the pause was reset in between.",
)
