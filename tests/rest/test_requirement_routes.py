"""Bounds of each vertex's parallelism, as Flink's adaptive scheduler takes them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import RequestRefusedError
from penstock.graph.job_graph import JobGraph
from penstock.rest.bodies import ParallelismBounds, VertexRequirements
from penstock.rest.requirement_routes import parallelism_within
from tests.rest.fake_job import ADMIN, GRAPH, JOB, READ, STAGE, Served

PATH = JOB + "/resource-requirements"


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def body(**bounds: tuple[Any, Any]) -> dict[str, Any]:
    return {vertex: {"parallelism": {"lowerBound": low, "upperBound": high}} for vertex, (low, high) in bounds.items()}


def graph(*parallelisms: int) -> JobGraph:
    """Stages s0, s1 …; those at parallelism 2 follow the job's, the others set their own."""
    stages = (replace(STAGE, id=f"s{index}", parallelism=number) for index, number in enumerate(parallelisms))
    return replace(GRAPH, stages=tuple(stages))


def within(*stages: tuple[int, int, int]) -> int:
    """Of stages with their parallelism and bounds."""
    bounds = {
        f"s{index}": VertexRequirements(ParallelismBounds(low, high)) for index, (_, low, high) in enumerate(stages)
    }
    return parallelism_within(graph(*(parallelism for parallelism, _, _ in stages)), bounds)


def test_requirements_are_the_parallelism_of_each_vertex(served: Served) -> None:
    assert served.client.get(PATH, headers=READ).json() == body(s0=(2, 2))


def test_e9_bounds_rescale_the_job(served: Served) -> None:
    answer = served.client.put(PATH, json=body(s0=(1, 4)), headers={"Idempotency-Key": "once"})
    assert (answer.status_code, answer.json()) == (200, {})
    again = served.client.put(PATH, json=body(s0=(1, 4)), headers={"Idempotency-Key": "once"})
    assert again.status_code == 200
    assert served.job.rescaled_to == [4], "the same request twice is one"
    assert "PUT /jobs/{jobid}/resource-requirements" in served.log.read_text()


def test_e9_bounds_that_the_job_is_within_change_nothing(served: Served) -> None:
    assert served.client.put(PATH, json=body(s0=(1, 2))).status_code == 200
    assert served.job.rescaled_to == []


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        body(s0=(1, 4), s9=(1, 4)),
        body(s0=(0, 4)),
        body(s0=(4, 3)),
        body(s0=(1, 129)),
        body(s0=(1, "4")),
        body(s0=(1, 1.5)),
        {"s0": {}},
        {"s0": {"parallelism": {"lowerBound": 1}}},
        {"s0": {"parallelism": {"lowerBound": 1, "upperBound": 4, "step": 1}}},
        [],
    ],
)
def test_r6_r10_wrong_bounds_are_refused(served: Served, wrong: Any) -> None:
    assert served.client.put(PATH, json=wrong).status_code == 400
    assert served.job.rescaled_to == []


def test_r6_a_vertex_that_occurs_twice_is_refused(served: Served) -> None:
    one = '"s0": {"parallelism": {"lowerBound": 1, "upperBound": 4}}'
    answer = served.client.put(PATH, content=f"{{{one}, {one}}}", headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and "twice" in answer.text


def test_e9_bounds_are_refused_while_the_job_is_being_rescaled_and_to_readers(served: Served) -> None:
    served.job.is_rescaling = True
    assert served.client.put(PATH, json=body(s0=(1, 4)), headers=ADMIN).status_code == 409
    assert served.client.put(PATH, json=body(s0=(1, 4)), headers=READ).status_code == 403


def test_e9_the_job_gets_the_greatest_parallelism_within_all_bounds() -> None:
    assert within((2, 1, 4), (2, 2, 3)) == 3
    assert within((2, 1, 1)) == 1
    assert within((2, 1, 8), (5, 1, 5)) == 8, "the second one keeps its own"
    assert within((5, 5, 5)) == 2, "no vertex follows the job's parallelism"


@pytest.mark.parametrize(
    ("stages", "message"),
    [(((2, 1, 2), (2, 3, 4)), "at least 3 and at most 2"), (((2, 1, 4), (5, 1, 4)), "'s1' sets a parallelism")],
)
def test_r10_bounds_that_no_parallelism_is_within_are_refused(
    stages: tuple[tuple[int, int, int], ...], message: str
) -> None:
    with pytest.raises(RequestRefusedError, match=message):
        within(*stages)
