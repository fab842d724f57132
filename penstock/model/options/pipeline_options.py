"""Options of a job's graph: name, parallelism, chaining, uids, and parameters for its functions."""

from penstock.model.execution import RuntimeExecutionMode
from penstock.model.option import KeyFamily, Option
from penstock.model.option_types import Boolean, Integer, Member, Milliseconds, OptionalText, Pairs

NAME: Option[str | None] = Option(
    "pipeline.name",
    OptionalText(),
    None,
    "The job's name. A name given to `env.execute` or by `--name` wins over it.",
    default_text="the name of the program's file",
)
PARALLELISM = Option(
    "parallelism.default",
    Integer(),
    -1,
    "The parallelism of operators that do not set their own. `penstock run -p` sets it.",
    default_text="the number of cores of the Spark session",
)
MAX_PARALLELISM = Option(
    "pipeline.max-parallelism",
    Integer(),
    -1,
    "The number of key groups, which is also the highest possible parallelism of an operator with keyed state.",
    default_text="derived from the parallelism",
)
CHAINING = Option(
    "pipeline.operator-chaining.enabled",
    Boolean(),
    True,
    "Whether operators that need no exchange between them run in one stage.",
    old_keys=("pipeline.operator-chaining",),
)
AUTO_GENERATE_UIDS = Option(
    "pipeline.auto-generate-uids",
    Boolean(),
    True,
    "Whether an operator without a uid gets one derived from its place in the program. If not, it is an error.",
)
JOB_PARAMETERS = KeyFamily(
    "pipeline.global-job-parameters.",
    "Parameters of your own, which functions read with `RuntimeContext.get_job_parameter`.",
)
JOB_PARAMETER_PAIRS: Option[dict[str, str]] = Option(
    "pipeline.global-job-parameters",
    Pairs(),
    {},
    "The same parameters in one setting. A key `pipeline.global-job-parameters.NAME` wins over it.",
    default_text="none",
)
AUTO_WATERMARK_INTERVAL = Option(
    "pipeline.auto-watermark-interval",
    Milliseconds(),
    200,
    "Time between two watermarks.",
    no_effect="watermarks advance at the end of each epoch",
)
OBJECT_REUSE = Option(
    "pipeline.object-reuse",
    Boolean(),
    False,
    "Whether chained operators pass the same objects on.",
    no_effect="chained operators always pass the same objects on",
)
RUNTIME_MODE = Option(
    "execution.runtime-mode",
    Member(RuntimeExecutionMode),
    RuntimeExecutionMode.STREAMING,
    "Whether the program runs as a stream or as a batch job. AUTOMATIC is BATCH if all sources are bounded.",
)
