"""Where stages begin and end."""

import pickle

import pytest

from penstock.errors import UsageError
from penstock.graph.job_graph import SPARK_SINK, SourceRef, StageOutput
from penstock.graph.pickling import loads
from penstock.graph.stream_graph import EventTime
from penstock.model.types import Types
from tests.graph.programs import ORDERS, Program


def test_key_by_columns_behind_sql_makes_one_keyed_stage_straight_behind_the_source():
    p = Program()
    source = p.source()
    p.print(p.process(p.key_by(p.where(p.where(source), "amount < 9"), "customer")))
    job = p.build()
    (stage,) = job.stages
    (edge,) = stage.inputs
    assert edge.source == SourceRef(job.sources[0].id)
    assert (edge.partitioning, edge.key_columns, edge.key_selector) == ("key", ("customer",), None)
    assert edge.jvm_ops == (("where", "amount > 0"), ("where", "amount < 9"))
    assert stage.key_types == edge.key_types == (Types.STRING(),)
    assert stage.name == "KEYED PROCESS -> Print"


def test_a_sink_and_a_python_operator_behind_a_keyed_process_share_its_stage():
    p = Program()
    p.print(p.map(p.process(p.key_by(p.source(), "customer"))))
    (stage,) = p.build().stages
    assert [operator.kind for operator in stage.operators] == ["keyed_process", "map", "sink"]
    assert [operator.inputs for operator in stage.operators] == [(-1,), (0,), (1,)]
    assert [operator.keyed for operator in stage.operators] == [True, False, False]
    assert stage.operators[0].key_types == (Types.STRING(),)
    assert stage.operators[2].config == {"sink": "print"}
    assert loads(stage.operators[2].function).kind == "print"


def test_v2_three_maps_are_one_stage_and_three_when_chaining_is_off():
    p = Program()
    stream = p.source()
    for _ in range(3):
        stream = p.map(stream)
    (stage,) = p.build().stages
    assert stage.name == "Map -> Map -> Map" and not stage.keyed
    assert stage.inputs[0].partitioning == "forward"
    unchained = p.build(chaining=False)
    assert [stage.name for stage in unchained.stages] == ["Map", "Map", "Map"]
    assert [stage.inputs[0].partitioning for stage in unchained.stages] == ["forward"] * 3


def test_v2_an_operator_with_chaining_disabled_is_a_stage_of_its_own():
    p = Program()
    first = p.map(p.source())
    second = p.map(first)
    second.chain_before = second.chain_after = False
    p.print(p.map(second))
    assert [stage.name for stage in p.build().stages] == ["Map", "Map", "Map -> Print"]


def test_start_new_chain_cuts_only_before_the_operator():
    p = Program()
    second = p.map(p.map(p.source()))
    second.chain_before = False
    p.print(second)
    assert [stage.name for stage in p.build().stages] == ["Map", "Map -> Print"]


def test_key_by_a_function_on_a_source_computes_the_key_in_a_stage_without_operators():
    p = Program()
    p.process(p.key_by_function(p.where(p.source()), str.upper))
    first, second = p.build().stages
    assert first.operators == () and not first.keyed and first.parallelism == 2
    assert first.inputs[0].jvm_ops == (("where", "amount > 0"),)
    (edge,) = second.inputs
    assert edge.source == StageOutput("s0", -1)
    assert first.outputs == (edge,)
    assert edge.partitioning == "key" and edge.key_columns is None
    assert edge.key_selector is not None and loads(edge.key_selector).get_key("a") == "A"


def test_key_by_a_function_behind_an_operator_computes_the_key_in_its_stage():
    p = Program()
    p.process(p.key_by_function(p.map(p.source())))
    first, second = p.build().stages
    assert [operator.kind for operator in first.operators] == ["map"]
    assert second.inputs[0].source == StageOutput("s0", 0)
    assert second.inputs[0].key_selector is not None


def test_key_by_columns_behind_an_operator_needs_nothing_in_its_stage():
    p = Program()
    p.process(p.key_by(p.process(p.key_by(p.source(), "customer")), "amount"))
    first, second = p.build().stages
    assert second.inputs[0].source == StageOutput("s0", 0)
    assert (second.inputs[0].key_columns, second.inputs[0].key_selector) == (("amount",), None)
    assert (first.key_types, second.key_types) == ((Types.STRING(),), (Types.DOUBLE(),))


def test_two_exchanges_make_three_stages_in_topological_order():
    p = Program()
    p.print(p.reduce(p.key_by(p.process(p.key_by_function(p.map(p.source()))), "customer")))
    job = p.build()
    assert [stage.id for stage in job.stages] == ["s0", "s1", "s2"]
    assert [stage.name for stage in job.stages] == ["Map", "KEYED PROCESS", "Reduce -> Print"]
    assert [edge.target for stage in job.stages for edge in stage.outputs] == ["s1", "s2"]
    assert [edge.id for stage in job.stages for edge in stage.inputs] == [0, 1, 2]


def test_a_change_of_parallelism_is_an_exchange():
    p = Program()
    p.print(p.map(p.map(p.source()), parallelism=3), parallelism=1)
    stages = p.build().stages
    assert [stage.parallelism for stage in stages] == [2, 3, 1]
    assert [stage.inputs[0].partitioning for stage in stages] == ["forward", "rebalance", "rebalance"]


def test_rebalance_is_an_exchange_at_the_same_parallelism():
    p = Program()
    p.map(p.rebalance(p.map(p.source())))
    stages = p.build().stages
    assert [stage.inputs[0].partitioning for stage in stages] == ["forward", "rebalance"]


def test_operators_with_one_input_and_parallelism_share_a_stage():
    p = Program()
    source = p.source()
    keyed = p.key_by(source, "customer")
    p.process(keyed)
    p.print(p.keyed_map(keyed))
    p.print(source)
    p.map(source)
    keyed_stage, plain_stage = p.build().stages
    assert keyed_stage.name == "KEYED PROCESS -> Map -> Print"
    assert [operator.inputs for operator in keyed_stage.operators] == [(-1,), (-1,), (1,)]
    assert plain_stage.name == "Print -> Map" and len(plain_stage.inputs) == 1


def test_operators_on_one_key_with_different_parallelism_have_two_stages():
    p = Program()
    keyed = p.key_by(p.source(), "customer")
    p.process(keyed)
    p.process(keyed, parallelism=3)
    assert [stage.parallelism for stage in p.build().stages] == [2, 3]


def test_union_of_two_sources_is_two_edges_into_the_next_stage():
    p = Program()
    united = p.union(p.source("a"), p.where(p.source("b")))
    p.print(p.process(p.key_by(united, "customer")))
    job = p.build()
    (stage,) = job.stages
    assert [edge.source for edge in stage.inputs] == [SourceRef(0), SourceRef(1)]
    assert [len(edge.jvm_ops) for edge in stage.inputs] == [0, 1]
    assert stage.operators[0].inputs == (-1, -2)
    assert [source.name for source in job.sources] == ["a", "b"]


def test_union_inside_a_stage_is_an_operator_with_several_inputs():
    p = Program()
    keyed = p.key_by(p.source(), "customer")
    p.print(p.union(p.keyed_map(keyed), p.keyed_map(keyed, repr)))
    (stage,) = p.build().stages
    assert stage.operators[2].inputs == (0, 1)


def test_union_of_stages_is_read_subtask_by_subtask():
    p = Program()
    left = p.process(p.key_by(p.source("a"), "customer"))
    right = p.process(p.key_by(p.source("b"), "customer"))
    p.map(p.union(left, right))
    stages = p.build().stages
    assert [edge.source for edge in stages[2].inputs] == [StageOutput("s0", 0), StageOutput("s1", 0)]
    assert [edge.partitioning for edge in stages[2].inputs] == ["forward", "forward"]


def test_key_by_a_function_over_a_union_computes_the_key_on_every_side():
    p = Program()
    united = p.union(p.source("a"), p.process(p.key_by(p.source("b"), "customer")))
    p.process(p.key_by_function(united))
    keyed, selector, last = p.build().stages
    assert keyed.name == "KEYED PROCESS" and selector.operators == ()
    assert {edge.source for edge in last.inputs} == {StageOutput("s1", -1), StageOutput("s0", 0)}
    assert all(edge.key_selector is not None for edge in last.inputs)


def test_a_stream_united_with_itself_arrives_twice():
    p = Program()
    mapped = p.map(p.source())
    p.print(p.union(mapped, mapped))
    (stage,) = p.build().stages
    assert stage.operators[1].inputs == (0, 0)


def test_a_sink_on_a_bare_source_is_a_stage_that_is_not_keyed():
    p = Program()
    p.print(p.source())
    (stage,) = p.build().stages
    assert stage.name == "Print" and not stage.keyed and stage.inputs[0].partitioning == "forward"


def test_to_spark_on_a_stream_that_never_left_the_jvm_makes_no_stage():
    p = Program()
    p.to_spark(p.where(p.source()), print)
    job = p.build()
    assert job.stages == ()
    (sink,) = job.spark_sinks
    assert sink.function is print and sink.record_type == ORDERS
    (edge,) = sink.edges
    assert edge.source == SourceRef(0) and edge.target == SPARK_SINK and edge.jvm_ops == (("where", "amount > 0"),)


def test_to_spark_behind_a_stage_is_an_output_edge_of_it():
    p = Program()
    p.to_spark(p.process(p.key_by(p.source(), "customer")))
    job = p.build()
    assert job.stages[0].outputs == job.spark_sinks[0].edges
    assert job.stages[0].outputs[0].source == StageOutput("s0", 0)


def test_sinks_are_listed_with_their_stage_for_the_side_that_commits():
    p = Program()
    p.print(p.map(p.source())).uid = "out"
    (sink,) = p.build().sinks
    assert (sink.uid, sink.stage_id, sink.spec.kind) == ("out", "s0", "print")


def test_event_time_of_a_source_makes_a_watermark_generator_in_each_stage_that_reads_it():
    p = Program()
    source = p.source(event_time=EventTime("at", 5000))
    source.uid = "orders"
    p.process(p.key_by(source, "customer"))
    p.map(source)
    for stage in p.build().stages:
        (generator,) = stage.watermark_generators
        assert (generator.uid, generator.out_of_orderness_ms, generator.position) == ("orders", 5000, -1)
        assert stage.inputs[0].event_time == EventTime("at", 5000)


def test_a_timestamps_operator_makes_a_watermark_generator_behind_itself():
    p = Program()
    node = p.timestamps(p.map(p.source()), 2000)
    node.uid = "times"
    (stage,) = p.build().stages
    (generator,) = stage.watermark_generators
    assert (generator.uid, generator.out_of_orderness_ms, generator.position) == ("times", 2000, 1)


def test_a_timestamps_operator_without_watermarks_makes_no_generator():
    p = Program()
    p.timestamps(p.source(), None)
    assert p.build().stages[0].watermark_generators == ()


def test_an_operator_without_a_sink_runs_and_a_source_without_a_reader_does_not():
    p = Program()
    p.map(p.source("read"))
    p.where(p.source("unread"))
    job = p.build()
    assert [source.name for source in job.sources] == ["read"]
    assert len(job.stages) == 1


def test_what_was_executed_is_not_executed_again_but_can_be_read_again():
    p = Program()
    mapped = p.map(p.source())
    p.print(mapped)
    p.graph.executed()
    with pytest.raises(UsageError, match="No operators defined in streaming topology"):
        p.build()
    p.filter(mapped)
    assert p.build().stages[0].name == "Map -> Filter"


def test_stages_are_plain_data_that_pickles():
    p = Program()
    p.print(p.process(p.key_by_function(p.source(event_time=EventTime("at")), lambda r: r.customer)))
    stages = p.build().stages
    assert pickle.loads(pickle.dumps(stages)) == stages


def test_a_job_is_bounded_if_all_its_sources_are():
    p = Program()
    p.map(p.source(bounded=True))
    assert p.build().bounded
    p.map(p.source(bounded=False))
    assert not p.build().bounded


def test_the_number_of_key_groups_is_one_for_the_job():
    p = Program()
    node = p.map(p.source())
    assert p.build(parallelism=200).max_parallelism == 512
    assert p.build(max_parallelism=7).stages[0].max_parallelism == 7
    node.max_parallelism = 8
    assert p.build().max_parallelism == 8
    with pytest.raises(UsageError, match="set it once"):
        p.build(max_parallelism=7)
    with pytest.raises(UsageError, match="parallelism 9 is not between 1 and the max parallelism 8"):
        p.build(parallelism=9)


def test_record_types_follow_the_records():
    p = Program()
    p.process(p.key_by_function(p.map(p.source())))
    first, second = p.build().stages
    assert first.operators[0].input_type == ORDERS
    assert second.inputs[0].record_type == first.operators[0].output_type == second.operators[0].input_type
