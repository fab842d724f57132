"""The README's program prints what the README shows, however it is started, soon and quietly."""

import signal
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests import quick_jvm
from tests.process.programs import (
    FUNCTION,
    SMALLEST,
    SMALLEST_INPUT,
    SMALLEST_OUTPUT,
    STREAM,
    TOTALS,
    Started,
    environment,
    said_in,
    totals_in,
    write_orders,
)
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.process

FIRST_OUTPUT_S = 30.0
BUSY_CORES = 0.5
"""Where other processes use more than this, a start that is too slow says nothing about us."""
WAYS = {
    "python": ["python", "totals.py"],
    "penstock run": ["penstock", "run", "-p", "2", "totals.py"],
    "spark-submit": ["spark-submit", "totals.py"],
}
IMPORTS = """
import time
from penstock.common import Configuration
from penstock.control.registry import registry_of
"""
RUN_AND_CANCEL = (
    STREAM
    + """
job = env.execute_async("totals")
records = registry_of(Configuration())
while records.read(job.get_job_id()).rows < 4:
    time.sleep(0.1)
job.cancel().result()
job
"""
)


@pytest.mark.parametrize("way", list(WAYS))
def test_the_smallest_program_gives_the_same_output_within_30_seconds(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(quick_jvm.VARIABLE)  # as users start it
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # for the first time
    (tmp_path / "totals.py").write_text(SMALLEST, encoding="utf-8")
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.json").write_text(SMALLEST_INPUT, encoding="utf-8")
    run = Started.of(WAYS[way], tmp_path)
    try:
        first = run.await_totals(len(SMALLEST_OUTPUT))
    finally:
        exit_code = run.interrupt()
    assert totals_in(run.out.splitlines()) == totals_in(SMALLEST_OUTPUT)
    assert exit_code in (130, -signal.SIGINT)
    if way == "penstock run":
        lines = run.out.splitlines()
        job_id = lines[0].removeprefix("Job has been submitted with JobID ")
        assert len(job_id) == 32 and lines[-1] == f"Job {job_id} SUSPENDED"
        assert sorted(line for line in lines if "> " in line) == SMALLEST_OUTPUT
        others = (
            "starting Spark",
            "suspending 'totals'",
            "delivery: at least once; state is exactly once",
            "  sink 'Pri",
        )
        *progress, last = [line for line in said_in(run.err) if not line.startswith(others)]
        assert all(line.startswith("totals ") for line in progress), run.err
        assert last.startswith("job 'totals' is suspended at checkpoint "), run.err
        assert last.endswith("; resume it with: penstock run -p 2 --resume totals.py")
    if way == "python":
        delivery, why, first_line, last = said_in(run.err)
        assert delivery == "delivery: at least once; state is exactly once" and why.startswith(
            "  sink 'Print to Std. Out'"
        )
        assert first_line.startswith("suspending 'totals'") and last.startswith("job 'totals' is suspended at ")
    assert "Traceback" not in run.err
    assert "WARN" not in run.out + ("" if way == "spark-submit" else run.err)
    print(f"{way}: {first}")
    assert first.seconds < FIRST_OUTPUT_S or first.foreign_cores > BUSY_CORES


def test_notebook_cells_define_functions_run_jobs_and_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_orders(tmp_path)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    imports = (
        "import time\nfrom penstock.common import Configuration\nfrom penstock.control.registry import registry_of\n"
    )
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in (imports + FUNCTION, RUN_AND_CANCEL)]
    )
    client = NotebookClient(
        notebook, timeout=int(LIMIT_S), kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    definitions, job = notebook.cells
    with client.setup_kernel():
        client.execute_cell(definitions, 0)
        assert definitions.outputs == []
        for _ in range(2):
            client.execute_cell(job, 1)
            streams = [output.text for output in job.outputs if output.output_type == "stream"]
            assert totals_in("".join(streams).splitlines()) == TOTALS
            assert "WARN" not in "".join(streams)
            shown = [output.data["text/plain"] for output in job.outputs if output.output_type == "execute_result"]
            assert len(shown) == 1 and shown[0].startswith("<JobClient ") and shown[0].endswith(" CANCELED>")
