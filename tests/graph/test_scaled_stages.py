"""Which stages of a job a rescale changes."""

from penstock.graph.scaled_stages import scaled_stages
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import SourceSpec, StreamGraph
from penstock.model.types import TAGGED
from tests.sim.job import BUCKETS, EVERYTHING, MAX_PARALLELISM, CountBuckets, Everything, add_keyed, bucket_of


def test_a_stage_whose_operators_set_the_parallelism_that_the_job_has_is_not_looked_at() -> None:
    """More subtasks would not relieve it, and once they are there it would no longer count: up and down in turn."""
    graph = StreamGraph()
    source = graph.add("source", "events", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    first = add_keyed(graph, source, lambda event: event.key, Everything(), EVERYTHING)
    second = add_keyed(graph, first, bucket_of, CountBuckets(), BUCKETS)
    second.parallelism = 2
    job_graph = build_job_graph(graph, GraphSettings(2, MAX_PARALLELISM))
    places = {stage.id: stage.uids for stage in job_graph.stages}
    assert BUCKETS in [uid for uids in places.values() for uid in uids]
    found = scaled_stages(job_graph)
    assert [places[stage] for stage in sorted(found) if places[stage]] == [(EVERYTHING,)]
    assert job_graph.at_parallelism is not None
    assert len(scaled_stages(job_graph.at_parallelism(MAX_PARALLELISM))) == len(found)
