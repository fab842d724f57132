"""The guarantee report: what a job guarantees from end to end, which part weakens it, and how to fix that.

Three things decide what holds for an output: the sources that it is computed from, the checkpointing mode and the sink.
Each may lose or repeat records after a failure; the output is as weak as the weakest of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, TypeAlias

from penstock.graph.job_graph import JobGraph, SinkPlan, SourcePlan, SourceRef, StageOutput
from penstock.graph.pickling import loads
from penstock.model.delivery import Delivery
from penstock.model.execution import CheckpointingMode
from penstock.model.sink import Sink

Origin: TypeAlias = SourceRef | StageOutput

SINK_FUNCTION = "sink_function"
MOST_LINES = 5
"""How many weak parts are listed when a job starts."""
ENABLE = "call env.enable_checkpointing(…)"
IN_MEMORY_ONLY = ("they are in the driver's memory: if it dies, the job cannot be resumed", "store them in files")
VISIBLE_EARLY = (
    "in mode AT_LEAST_ONCE output is visible before its checkpoint, and comes again after a failure",
    "choose CheckpointingMode.EXACTLY_ONCE",
)
PRINTED = Delivery.at_least_once(
    "lines since the last checkpoint are printed again after a failure", "for exact output, write to a FileSink"
)
STARTS_AT_THE_NEWEST = (
    "without checkpoints it begins at the newest records again after a failure, and those in between are lost",
    "call env.enable_checkpointing(…), or let it begin at a fixed place",
)
COMMITTED_ONCE = Delivery.at_least_once(
    "in BATCH mode the job takes none: if its driver dies while it commits the output, or just after, a part of it or "
    "all is visible, and a new run writes it again",
    "run the program in STREAMING mode with env.enable_checkpointing(…)",
)
WRITTEN_BY_SPARK = Delivery.at_least_once(
    "the rows of an epoch may be handed to the writer again after a failure",
    "write to a sink with transactions, such as FileSink",
)


class Guarantee(Enum):
    """How often the result of a record is visible in the end, whatever fails."""

    EXACTLY_ONCE = "exactly once"
    EFFECTIVELY_ONCE = "effectively once"
    """Records may be written again, but the final result is the same."""
    AT_LEAST_ONCE = "at least once"
    AT_MOST_ONCE = "at most once"
    NONE = "no guarantee"
    """Records may be lost, and others repeated."""

    @property
    def is_exact(self) -> bool:
        """Whether the final result is the one of a run without failures."""
        return self in (Guarantee.EXACTLY_ONCE, Guarantee.EFFECTIVELY_ONCE)

    @staticmethod
    def weakest(guarantees: Iterable["Guarantee"]) -> "Guarantee":
        """The guarantee that all of them have."""
        found = set(guarantees)
        if Guarantee.NONE in found or {Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE} <= found:
            return Guarantee.NONE
        return max(found, key=list(Guarantee).index, default=Guarantee.EXACTLY_ONCE)


@dataclass(frozen=True)
class FaultTolerance:
    """The settings of a job that decide what a failure does to it."""

    mode: CheckpointingMode | None = CheckpointingMode.EXACTLY_ONCE
    """None: the job takes no checkpoints."""
    outlives_driver: bool = True
    """Whether checkpoints are in files, so that another driver can resume the job."""
    restarts: bool = True
    """Whether the job restarts by itself after a failure."""
    batch: bool = False
    """The job takes no checkpoints and commits its output at its end. After a failure it reads everything again."""

    @property
    def replays(self) -> bool:
        """Whether records can be processed again at all."""
        return self.mode is not None or self.restarts or self.batch

    @property
    def forgets_positions(self) -> bool:
        """Whether the sources begin where the program says again after a failure."""
        return self.mode is None and self.restarts

    @property
    def delivery(self) -> Delivery:
        """The guarantee that the settings allow to a sink that commits with checkpoints."""
        if self.batch:
            return COMMITTED_ONCE
        if self.mode is None and not self.restarts:
            return Delivery.at_most_once(
                "the job takes none and ends at its first failure: records that are not written yet are lost", ENABLE
            )
        if self.mode is None:
            return Delivery.at_least_once(
                "the job takes none: after a failure it starts from the beginning, and all output comes again", ENABLE
            )
        repeats = self.mode is CheckpointingMode.AT_LEAST_ONCE
        weak = [*([] if self.outlives_driver else [IN_MEMORY_ONLY]), *([VISIBLE_EARLY] if repeats else [])]
        return Delivery(
            may_lose=not self.outlives_driver,
            may_repeat=repeats,
            reason="; ".join(reason for reason, _ in weak),
            remedy="; ".join(remedy for _, remedy in weak),
        )


@dataclass(frozen=True)
class Part:
    """A source, a sink, or the checkpoints of a job, with its guarantee."""

    role: Literal["source", "sink", "checkpoints"]
    uid: str
    name: str
    delivery: Delivery

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}" if self.name else self.role

    @property
    def advice(self) -> str:
        """Why it weakens the guarantee, and what to do."""
        return f"{self}: {'; '.join(filter(None, (self.delivery.reason, self.delivery.remedy)))}"

    def to_dict(self) -> dict[str, str]:
        """For JSON."""
        identity = {"part": self.role, "uid": self.uid, "name": self.name}
        return {**identity, "reason": self.delivery.reason, "remedy": self.delivery.remedy}


@dataclass(frozen=True)
class OutputGuarantee:
    """What is promised about the output of one sink."""

    sink: Part
    guarantee: Guarantee
    weak_parts: tuple[Part, ...]
    """The parts without which the output would be exactly once."""


@dataclass(frozen=True)
class GuaranteeReport:
    """What a job promises, sink by sink."""

    state: Guarantee
    """How often a record changes the state."""
    outputs: tuple[OutputGuarantee, ...]
    weak_parts: tuple[Part, ...]
    """The parts without which everything would be exactly once."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all outputs together; in a job without sinks, that of the state."""
        if not self.outputs:
            return self.state
        return Guarantee.weakest(output.guarantee for output in self.outputs)

    @property
    def lines(self) -> list[str]:
        """The report as text: one line, and one for each weak part."""
        if not self.outputs:
            first = f"delivery: the job has no sink; state is {self.state.value}"
        elif self.guarantee is Guarantee.EXACTLY_ONCE:
            first = "delivery: exactly once, end to end"
        else:
            first = f"delivery: {self.guarantee.value}; state is {self.state.value}"
        return [first, *(f"  {part.advice}" for part in self.weak_parts)]

    @property
    def short_lines(self) -> list[str]:
        """The report as text with a limited number of lines, for the start of a job."""
        lines = self.lines
        if len(lines) <= 1 + MOST_LINES:
            return lines
        return [*lines[: 1 + MOST_LINES], f"  and {len(lines) - 1 - MOST_LINES} more, see `penstock info`"]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "guarantee": self.guarantee.value,
            "state": self.state.value,
            "outputs": [
                {"uid": output.sink.uid, "name": output.sink.name, "guarantee": output.guarantee.value}
                for output in self.outputs
            ],
            "weak_parts": [part.to_dict() for part in self.weak_parts],
        }


def report_guarantees(graph: JobGraph, tolerance: FaultTolerance) -> GuaranteeReport:
    """The guarantees of the job with these settings."""
    if graph.batch:
        tolerance = replace(tolerance, mode=None, batch=True)
    origins = _Origins(graph, tolerance)
    outputs = [_output(sink, origins.of(origins_of_sink), tolerance) for sink, origins_of_sink in _sinks(graph)]
    sources = [_source(source, tolerance) for source in graph.sources]
    weak = [part for output in outputs for part in output.weak_parts]
    weak += [part for part in sources if not part.delivery.is_exact]
    if tolerance.delivery.may_lose:
        weak.append(_checkpoints(tolerance))
    return GuaranteeReport(_state(sources, tolerance), tuple(outputs), tuple(dict.fromkeys(weak)))


def _output(sink: Part, sources: Sequence[Part], tolerance: FaultTolerance) -> OutputGuarantee:
    parts = (*sources, _checkpoints(tolerance), sink)
    loses = any(part.delivery.may_lose for part in parts)
    repeats = tolerance.replays and any(part.delivery.may_repeat for part in parts)
    harmless = sink.delivery.is_idempotent and not any(source.delivery.may_repeat for source in sources)
    weak = [p for p in parts if p.delivery.may_lose or (p.delivery.may_repeat and tolerance.replays)]
    guarantee = _guarantee(loses=loses, repeats=repeats, harmless=harmless)
    return OutputGuarantee(sink, guarantee, tuple(weak))


def _state(sources: Sequence[Part], tolerance: FaultTolerance) -> Guarantee:
    """In both modes state goes back to the checkpoint, so only sources can lose or repeat a record in it."""
    loses = tolerance.delivery.may_lose or any(source.delivery.may_lose for source in sources)
    return _guarantee(loses=loses, repeats=any(source.delivery.may_repeat for source in sources), harmless=False)


def _guarantee(*, loses: bool, repeats: bool, harmless: bool) -> Guarantee:
    if repeats and not harmless:
        return Guarantee.NONE if loses else Guarantee.AT_LEAST_ONCE
    if loses:
        return Guarantee.AT_MOST_ONCE
    return Guarantee.EFFECTIVELY_ONCE if repeats else Guarantee.EXACTLY_ONCE


def _checkpoints(tolerance: FaultTolerance) -> Part:
    return Part("checkpoints", "", "", tolerance.delivery)


def _source(source: SourcePlan, tolerance: FaultTolerance) -> Part:
    delivery = source.spec.delivery
    if tolerance.forgets_positions and not source.spec.fixed_start:
        reason, remedy = STARTS_AT_THE_NEWEST
        delivery = replace(
            delivery,
            may_lose=True,
            reason="; ".join(filter(None, (delivery.reason, reason))),
            remedy="; ".join(filter(None, (delivery.remedy, remedy))),
        )
    return Part("source", source.uid, source.name, delivery)


def _sinks(graph: JobGraph) -> Iterator[tuple[Part, list[Origin]]]:
    """Every sink, and where its records come from: transactional ones, printed lines, functions, writers of Spark."""
    plans = {sink.uid: sink for sink in graph.sinks}
    for stage in graph.stages:
        for operator in stage.operators:
            if operator.uid in plans:
                delivery = _sink_delivery(plans[operator.uid], batch=graph.batch)
            elif operator.kind == SINK_FUNCTION:
                delivery = loads(operator.function).delivery
            else:
                continue
            origins: list[Origin] = [StageOutput(stage.id, position) for position in operator.inputs]
            yield Part("sink", operator.uid, operator.name, delivery), origins
    for spark_sink in graph.spark_sinks:
        yield (
            Part("sink", spark_sink.uid, spark_sink.name, WRITTEN_BY_SPARK),
            [edge.source for edge in spark_sink.edges],
        )


def _sink_delivery(plan: SinkPlan, *, batch: bool) -> Delivery:
    if plan.spec.kind == "sink":
        sink: Sink = plan.spec.config
        return sink.delivery
    if plan.spec.kind == "print":
        return PRINTED
    # What a batch job collects goes to the program, which dies with the driver: nothing of it is left to be repeated.
    return Delivery.exactly_once(is_idempotent=batch)


class _Origins:
    """The sources that records at a position of a stage are computed from."""

    def __init__(self, graph: JobGraph, tolerance: FaultTolerance) -> None:
        self._graph = graph
        self._tolerance = tolerance
        self._found: dict[StageOutput, frozenset[int]] = {}

    def of(self, origins: Iterable[Origin]) -> list[Part]:
        """The sources, in the order of the program."""
        ids = {source_id for origin in origins for source_id in self._sources(origin)}
        return [_source(source, self._tolerance) for source in self._graph.sources if source.id in ids]

    def _sources(self, origin: Origin) -> frozenset[int]:
        if isinstance(origin, SourceRef):
            return frozenset((origin.source_id,))
        if origin not in self._found:
            self._found[origin] = frozenset().union(*map(self._sources, self._inputs(origin)))
        return self._found[origin]

    def _inputs(self, origin: StageOutput) -> list[Origin]:
        stage = self._graph.stage(origin.stage_id)
        if origin.position < 0:
            return [stage.inputs[-1 - origin.position].source]
        return [StageOutput(stage.id, position) for position in stage.operators[origin.position].inputs]
