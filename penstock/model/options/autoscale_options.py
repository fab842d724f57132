"""Options of the autoscaler, which changes the parallelism of a running job."""

from penstock.model.option import Option
from penstock.model.option_types import Boolean, Integer, Milliseconds, Number

AUTOSCALE = Option(
    "penstock.autoscale",
    Boolean(),
    False,
    "Whether the job rescales itself, within the bounds below, from how busy its subtasks are and whether it lags.",
)
AUTOSCALE_MIN = Option(
    "penstock.autoscale.min-parallelism", Integer(least=1), 1, "The lowest parallelism that the autoscaler chooses."
)
AUTOSCALE_MAX = Option(
    "penstock.autoscale.max-parallelism",
    Integer(least=0),
    0,
    "The highest parallelism that the autoscaler chooses. 0: the number of Spark's cores. The job's max parallelism is "
    "a limit, too.",
)
AUTOSCALE_TARGET = Option(
    "penstock.autoscale.target-busy",
    Number(0.05, 1.0),
    0.7,
    "Which share of the time the subtasks of the busiest operator should be busy, between 0 and 1.",
)
AUTOSCALE_MARGIN = Option(
    "penstock.autoscale.margin",
    Number(0.0, 0.5),
    0.2,
    "How far the busy share may be from the target, up or down, before the parallelism is changed.",
)
AUTOSCALE_STABILIZATION = Option(
    "penstock.autoscale.stabilization",
    Milliseconds(least=1000),
    120_000,
    "The parallelism is changed at most once in this time, and from measurements over this time.",
)
AUTOSCALE_DOWN_INTERVAL = Option(
    "penstock.autoscale.scale-down-interval",
    Milliseconds(),
    600_000,
    "The parallelism is not lowered sooner than this after the last change, or after the start of the job.",
)
