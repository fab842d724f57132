"""The guarantee report: source × checkpointing mode × sink, and which part weakens the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from penstock.connectors.discard import DiscardingSink
from penstock.graph.guarantees import FaultTolerance, Guarantee, GuaranteeReport, report_guarantees
from penstock.graph.stream_graph import Node, OperatorSpec, SinkSpec
from penstock.model.delivery import Delivery
from penstock.model.execution import CheckpointingMode, RuntimeExecutionMode
from penstock.model.sink import DeliveryGuarantee, Sink, SinkContext, SinkWriter
from penstock.model.sink_functions import SinkFunction
from penstock.model.snapshot import Committable
from tests.graph.programs import Program

EXACT = FaultTolerance()
AT_LEAST = FaultTolerance(CheckpointingMode.AT_LEAST_ONCE)
FROM_THE_START = FaultTolerance(None, restarts=True)
NOTHING = FaultTolerance(None, restarts=False)
IN_MEMORY = FaultTolerance(outlives_driver=False)
AT_LEAST_IN_MEMORY = FaultTolerance(CheckpointingMode.AT_LEAST_ONCE, outlives_driver=False)

REPLAYABLE = Delivery.exactly_once()
SOCKET = Delivery.at_most_once("its rows are not kept", "write them to files")

TRANSACTIONS = Delivery.exactly_once()
UPSERT = Delivery.exactly_once(is_idempotent=True)
REPEATED_UPSERT = Delivery.idempotent("rows are upserted again")
ONCE_OR_MORE = DeliveryGuarantee.AT_LEAST_ONCE.delivery
CARELESS = DeliveryGuarantee.NONE.delivery


@dataclass(frozen=True)
class Answering(Sink):
    """A sink that promises what the test says."""

    answer: Delivery

    @property
    def delivery(self) -> Delivery:
        return self.answer

    def open(self, context: SinkContext) -> SinkWriter:
        raise NotImplementedError

    def commit(self, committable: Committable) -> None: ...

    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None: ...


class Post(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None: ...


class Put(Post):
    @property
    def delivery(self) -> Delivery:
        return Delivery.idempotent("a PUT may be sent again")


def source(program: Program, delivery: Delivery = REPLAYABLE, name: str = "orders") -> Node:
    node = program.source(name)
    node.payload = replace(node.payload, delivery=delivery)
    return node


def sink(program: Program, node: Node, answer: Sink | Delivery, name: str = "Writer") -> Node:
    config = Answering(answer) if isinstance(answer, Delivery) else answer
    return program.graph.add("sink", name, [node.id], SinkSpec("sink", config), node.output_type)


def report(read: Delivery, tolerance: FaultTolerance, written: Delivery) -> GuaranteeReport:
    program = Program()
    sink(program, program.map(source(program, read)), written)
    return report_guarantees(program.build(), tolerance)


@pytest.mark.parametrize(
    ("read", "tolerance", "written", "expected", "weak"),
    [
        (REPLAYABLE, EXACT, TRANSACTIONS, "exactly once", ""),
        (REPLAYABLE, EXACT, UPSERT, "exactly once", ""),
        (REPLAYABLE, EXACT, REPEATED_UPSERT, "effectively once", "sink"),
        (REPLAYABLE, EXACT, ONCE_OR_MORE, "at least once", "sink"),
        (REPLAYABLE, EXACT, CARELESS, "no guarantee", "sink"),
        (REPLAYABLE, AT_LEAST, TRANSACTIONS, "at least once", "checkpoints"),
        (REPLAYABLE, AT_LEAST, UPSERT, "effectively once", "checkpoints"),
        (REPLAYABLE, AT_LEAST, REPEATED_UPSERT, "effectively once", "checkpoints sink"),
        (REPLAYABLE, AT_LEAST, ONCE_OR_MORE, "at least once", "checkpoints sink"),
        (REPLAYABLE, FROM_THE_START, TRANSACTIONS, "at least once", "checkpoints"),
        (REPLAYABLE, FROM_THE_START, UPSERT, "effectively once", "checkpoints"),
        (REPLAYABLE, NOTHING, TRANSACTIONS, "at most once", "checkpoints"),
        (REPLAYABLE, NOTHING, UPSERT, "at most once", "checkpoints"),
        (REPLAYABLE, NOTHING, ONCE_OR_MORE, "at most once", "checkpoints"),
        (REPLAYABLE, IN_MEMORY, TRANSACTIONS, "at most once", "checkpoints"),
        (REPLAYABLE, AT_LEAST_IN_MEMORY, TRANSACTIONS, "no guarantee", "checkpoints"),
        (REPLAYABLE, AT_LEAST_IN_MEMORY, UPSERT, "at most once", "checkpoints"),
        (SOCKET, EXACT, TRANSACTIONS, "at most once", "source"),
        (SOCKET, EXACT, UPSERT, "at most once", "source"),
        (SOCKET, EXACT, ONCE_OR_MORE, "no guarantee", "source sink"),
        (SOCKET, AT_LEAST, TRANSACTIONS, "no guarantee", "source checkpoints"),
        (SOCKET, AT_LEAST, UPSERT, "at most once", "source checkpoints"),
        (SOCKET, NOTHING, TRANSACTIONS, "at most once", "source checkpoints"),
    ],
)
def test_q1_source_mode_and_sink_decide_together(
    read: Delivery, tolerance: FaultTolerance, written: Delivery, expected: str, weak: str
) -> None:
    found = report(read, tolerance, written)
    assert found.guarantee.value == expected
    assert " ".join(part.role for part in found.weak_parts) == weak
    assert found.guarantee.is_exact == (expected in ("exactly once", "effectively once"))


@pytest.mark.parametrize(
    ("read", "tolerance", "expected"),
    [
        (REPLAYABLE, EXACT, "exactly once"),
        (REPLAYABLE, AT_LEAST, "exactly once"),
        (REPLAYABLE, FROM_THE_START, "exactly once"),
        (REPLAYABLE, NOTHING, "at most once"),
        (SOCKET, EXACT, "at most once"),
    ],
)
def test_q2_state_is_exact_in_both_modes(read: Delivery, tolerance: FaultTolerance, expected: str) -> None:
    assert report(read, tolerance, ONCE_OR_MORE).state.value == expected


def test_a_weak_source_weakens_only_the_sinks_that_read_it() -> None:
    program = Program()
    strong, weak = source(program, name="files"), source(program, SOCKET, "socket")
    both = program.process(program.key_by(program.union(strong, weak), "customer"))
    sink(program, program.map(strong), TRANSACTIONS, "exact")
    sink(program, both, TRANSACTIONS, "lossy")
    program.to_spark(program.where(strong))
    found = report_guarantees(program.build(), EXACT)
    assert [(output.sink.name, output.guarantee.value) for output in found.outputs] == [
        ("lossy", "at most once"),
        ("exact", "exactly once"),
        ("Spark", "at least once"),
    ]
    assert found.guarantee is Guarantee.NONE
    assert [str(part) for part in found.weak_parts] == ["source 'socket'", "sink 'Spark'"]


def test_printed_lines_and_functions_are_at_least_once() -> None:
    program = Program()
    rows = program.map(source(program))
    program.print(rows)
    for name, function in (("Post", Post()), ("Put", Put())):
        program.graph.add("operator", name, [rows.id], OperatorSpec("sink_function", function), rows.output_type)
    sink(program, rows, DiscardingSink())
    found = report_guarantees(program.build(), EXACT)
    assert {output.sink.name: output.guarantee.value for output in found.outputs} == {
        "Print": "at least once",
        "Post": "at least once",
        "Put": "effectively once",
        "Writer": "exactly once",
    }


def in_batch_mode(config: SinkSpec, tolerance: FaultTolerance) -> GuaranteeReport:
    program = Program()
    rows = program.map(program.source(bounded=True))
    program.graph.add("sink", "Writer", [rows.id], config, rows.output_type)
    return report_guarantees(program.build(mode=RuntimeExecutionMode.BATCH), tolerance)


@pytest.mark.parametrize("tolerance", [NOTHING, FROM_THE_START, EXACT])
def test_a_batch_job_whose_driver_dies_in_its_commit_is_run_again_as_a_new_job(tolerance: FaultTolerance) -> None:
    found = in_batch_mode(SinkSpec("sink", Answering(TRANSACTIONS)), tolerance)
    assert found.lines == [
        "delivery: at least once; state is exactly once",
        "  checkpoints: in BATCH mode the job takes none: if its driver dies while it commits the output, or just "
        "after, a part of it or all is visible, and a new run writes it again; run the program in STREAMING mode with "
        "env.enable_checkpointing(…)",
    ]
    assert in_batch_mode(SinkSpec("sink", Answering(UPSERT)), tolerance).guarantee is Guarantee.EFFECTIVELY_ONCE


def test_what_a_batch_job_collects_is_not_there_twice() -> None:
    assert in_batch_mode(SinkSpec("collect"), NOTHING).guarantee.is_exact


def starting_at_the_newest(read: Delivery, tolerance: FaultTolerance) -> GuaranteeReport:
    program = Program()
    node = source(program, read)
    node.payload = replace(node.payload, fixed_start=False)
    sink(program, program.map(node), TRANSACTIONS)
    return report_guarantees(program.build(), tolerance)


def test_a_restart_without_a_position_passes_over_what_came_before_it() -> None:
    found = starting_at_the_newest(REPLAYABLE, FROM_THE_START)
    assert (found.guarantee, found.state) == (Guarantee.NONE, Guarantee.AT_MOST_ONCE)
    assert found.weak_parts[0].advice == (
        "source 'orders': without checkpoints it begins at the newest records again after a failure, and those in "
        "between are lost; call env.enable_checkpointing(…), or let it begin at a fixed place"
    )
    assert starting_at_the_newest(REPLAYABLE, EXACT).guarantee is Guarantee.EXACTLY_ONCE
    assert starting_at_the_newest(REPLAYABLE, NOTHING).guarantee is Guarantee.AT_MOST_ONCE


def test_a_weak_source_without_a_fixed_start_says_both() -> None:
    part = starting_at_the_newest(SOCKET, FROM_THE_START).weak_parts[0]
    assert part.delivery.reason.startswith("its rows are not kept; without checkpoints")
    assert part.delivery.remedy.startswith("write them to files; call env.enable_checkpointing")


def test_a_job_without_a_sink_reports_its_state() -> None:
    program = Program()
    program.map(source(program))
    assert report_guarantees(program.build(), EXACT).lines == ["delivery: the job has no sink; state is exactly once"]


def test_the_report_names_the_weak_part_and_the_way_out() -> None:
    assert report(REPLAYABLE, EXACT, TRANSACTIONS).lines == ["delivery: exactly once, end to end"]
    assert report(SOCKET, AT_LEAST, TRANSACTIONS).lines == [
        "delivery: no guarantee; state is at most once",
        "  source 'orders': its rows are not kept; write them to files",
        "  checkpoints: in mode AT_LEAST_ONCE output is visible before its checkpoint, and comes again after a failure"
        "; choose CheckpointingMode.EXACTLY_ONCE",
    ]


def test_a_job_with_many_weak_parts_starts_with_few_lines() -> None:
    program = Program()
    rows = program.map(source(program))
    for index in range(8):
        sink(program, rows, ONCE_OR_MORE, f"w{index}")
    found = report_guarantees(program.build(), EXACT)
    assert len(found.lines) == 9
    assert found.short_lines[:2] == found.lines[:2]
    assert found.short_lines[-1] == "  and 3 more, see `penstock info`"


def test_the_report_as_json() -> None:
    found = report(REPLAYABLE, EXACT, ONCE_OR_MORE).to_dict()
    (output,) = found.pop("outputs")
    (part,) = found.pop("weak_parts")
    assert found == {"guarantee": "at least once", "state": "exactly once"}
    assert output == {"uid": part["uid"], "name": "Writer", "guarantee": "at least once"}
    assert part["part"] == "sink" and part["remedy"] == "choose DeliveryGuarantee.EXACTLY_ONCE for the sink"
