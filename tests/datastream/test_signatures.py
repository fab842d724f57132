"""Names and parameters are PyFlink's."""

import inspect

import pytest

from penstock.datastream import (
    CheckpointConfig,
    CloseableIterator,
    DataStream,
    DataStreamSink,
    JobClient,
    KeyedStream,
    StreamExecutionEnvironment,
)

DATA_STREAM = """get_name, name(name), uid(uid), set_uid_hash(uid_hash), set_parallelism(parallelism),
 set_max_parallelism(max_parallelism), get_type, get_execution_environment, get_execution_config, force_non_parallel,
 set_buffer_timeout(timeout_millis), start_new_chain, disable_chaining, slot_sharing_group(slot_sharing_group),
 set_description(description), map(func output_type=None), flat_map(func output_type=None),
 key_by(key_selector key_type=None), filter(func), window_all(window_assigner), union(*streams), connect(ds), shuffle,
 project(*field_indexes), rescale, rebalance, forward, broadcast, process(func output_type=None),
 assign_timestamps_and_watermarks(watermark_strategy), partition_custom(partitioner key_selector), add_sink(sink_func),
 sink_to(sink), execute_and_collect(job_execution_name=None limit=None), print(sink_identifier=None),
 get_side_output(output_tag), cache"""
KEYED_STREAM = """map(func output_type=None), flat_map(func output_type=None), reduce(func), filter(func),
 sum(position_to_sum=0), min(position_to_min=0), max(position_to_max=0), min_by(position_to_min_by=0),
 max_by(position_to_max_by=0), add_sink(sink_func), key_by(key_selector key_type=None), process(func output_type=None),
 window(window_assigner), count_window(size slide=0), union(*streams), connect(ds)"""
SINK = """name(name), uid(uid), set_uid_hash(uid_hash), set_parallelism(parallelism), set_description(description),
 disable_chaining, slot_sharing_group(slot_sharing_group)"""
ENVIRONMENT = """get_execution_environment(configuration=None), get_config, set_parallelism(parallelism),
 set_max_parallelism(max_parallelism), get_parallelism, get_max_parallelism,
 register_slot_sharing_group(slot_sharing_group), set_runtime_mode(execution_mode), set_buffer_timeout(timeout_millis),
 get_buffer_timeout, disable_operator_chaining, is_chaining_enabled, get_checkpoint_config,
 enable_checkpointing(interval mode=None), get_checkpoint_interval, get_checkpointing_mode,
 get_checkpointing_consistency_mode, enable_changelog_state_backend(enabled), is_changelog_state_backend_enabled,
 set_default_savepoint_directory(directory), get_default_savepoint_directory, configure(configuration),
 add_python_file(file_path), set_python_requirements(requirements_file_path requirements_cache_dir=None),
 add_python_archive(archive_path target_dir=None), set_python_executable(python_exec), add_jars(*jars_path),
 add_classpaths(*classpaths), execute(job_name=None), execute_async(job_name=None), get_execution_plan,
 register_cached_file(file_path name executable=False), create_input(input_format type_info=None),
 from_source(source watermark_strategy source_name type_info=None), from_collection(collection type_info=None),
 is_unaligned_checkpoints_enabled, is_force_unaligned_checkpoints, close"""
CHECKPOINTS = """is_checkpointing_enabled, get_checkpointing_mode, set_checkpointing_mode(checkpointing_mode),
 get_checkpoint_interval, set_checkpoint_interval(checkpoint_interval), get_checkpoint_timeout,
 set_checkpoint_timeout(checkpoint_timeout), get_min_pause_between_checkpoints,
 set_min_pause_between_checkpoints(min_pause_between_checkpoints), get_max_concurrent_checkpoints,
 set_max_concurrent_checkpoints(max_concurrent_checkpoints), is_fail_on_checkpointing_errors,
 set_fail_on_checkpointing_errors(fail_on_checkpointing_errors), get_tolerable_checkpoint_failure_number,
 set_tolerable_checkpoint_failure_number(tolerable_checkpoint_failure_number),
 set_externalized_checkpoint_retention(retention_mode), is_externalized_checkpoints_enabled,
 get_externalized_checkpoint_retention, is_unaligned_checkpoints_enabled, enable_unaligned_checkpoints(enabled=True),
 disable_unaligned_checkpoints, set_aligned_checkpoint_timeout(aligned_checkpoint_timeout),
 get_aligned_checkpoint_timeout, set_alignment_timeout(alignment_timeout), get_alignment_timeout,
 set_force_unaligned_checkpoints(force_unaligned_checkpoints=True), is_force_unaligned_checkpoints"""
JOB_CLIENT = """get_job_id, get_job_status, cancel,
 stop_with_savepoint(advance_to_end_of_event_time savepoint_directory=None),
 trigger_savepoint(savepoint_directory=None), get_accumulators, get_job_execution_result"""

CASES = [
    (kind, entry.strip())
    for kind, text in (
        (DataStream, DATA_STREAM),
        (KeyedStream, DATA_STREAM),
        (KeyedStream, KEYED_STREAM),
        (DataStreamSink, SINK),
        (StreamExecutionEnvironment, ENVIRONMENT),
        (CheckpointConfig, CHECKPOINTS),
        (JobClient, JOB_CLIENT),
        (CloseableIterator, "close, next"),
    )
    for entry in text.replace("\n", " ").split(",")
]


@pytest.mark.parametrize(("kind", "entry"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_a_method_takes_what_pyflink_s_takes_in_the_same_order(kind: type, entry: str):
    name, _, parameters = entry.partition("(")
    found = list(inspect.signature(getattr(kind, name)).parameters.values())
    found = [parameter for parameter in found if parameter.name != "self"]
    for parameter, wanted in zip(found, parameters.rstrip(")").split(), strict=False):
        wanted_name, _, default = wanted.partition("=")
        assert parameter.name == wanted_name.lstrip("*")
        assert (parameter.kind is inspect.Parameter.VAR_POSITIONAL) == wanted_name.startswith("*")
        assert (repr(parameter.default) if default else parameter.default) == (default or inspect.Parameter.empty)
    for extra in found[len(parameters.rstrip(")").split()) :]:
        assert extra.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)
