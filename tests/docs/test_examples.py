"""Every code block of the documentation does what it says; `tests/docs/pages.py` says what is done with which."""

import importlib.util
import io
import re
from contextlib import redirect_stdout
from itertools import groupby
from pathlib import Path

import pytest
import yaml

from penstock.model.options.catalogue import OLD_KEYS, check_setting, find_option, with_new_names
from tests.docs.pages import ROOT, Block, all_blocks, written_pages

BLOCKS = all_blocks()
LANGUAGES = {"python", "output", "console", "yaml", "toml", "json", "text"}
PROGRAMS = {
    "README.md": "tests/process/programs.py",
    "docs/connectors/delta.md": "tests/spark/test_table_programs.py",
    "docs/connectors/hdfs.md": "tests/process/test_hdfs_savepoints.py",
    "docs/connectors/iceberg.md": "tests/spark/test_table_programs.py",
    "docs/connectors/kafka.md": "tests/kafka/test_kafka_sink_broker.py",
    "docs/connectors/postgres.md": "tests/spark/test_database_programs.py",
    "docs/how-to/query-live-state.md": "tests/process/test_live_queries.py",
    "docs/tutorial/first-job.md": "tests/process/test_first_job.py",
    "docs/tutorial/kafka-to-kafka-and-postgres.md": "tests/process/test_kafka_tutorial.py",
    "docs/tutorial/upgrade-a-job.md": "tests/process/test_journey.py",
}
"""Page with programs in files -> the test that runs them."""
ON_SPARK = "tests/spark/test_docs.py"
"""Runs the pages whose blocks use a Spark session."""


def uses_spark(blocks: list[Block]) -> bool:
    return any("SparkSession" in block.text for block in blocks if block.is_run)


PAGES = {page: list(blocks) for page, blocks in groupby(BLOCKS, key=lambda block: block.page)}
RUN_HERE = [page for page, blocks in PAGES.items() if any(b.is_run for b in blocks) and not uses_spark(blocks)]


def run_page(blocks: list[Block], names: dict[str, object]) -> None:
    """Run the blocks of a page one after the other, and compare what they print."""
    printed = io.StringIO()
    for block in blocks:
        if block.is_run:
            source = "\n" * block.line + block.text
            with redirect_stdout(printed):
                exec(compile(source, str(ROOT / block.page), "exec"), names)
        elif block.language == "output" and printed.getvalue():
            assert printed.getvalue() == block.text, f"{block} shows something else"
            printed = io.StringIO()
    assert not printed.getvalue(), f"{blocks[0].page} does not show that it prints {printed.getvalue()!r}"


def test_every_block_says_what_it_is() -> None:
    assert not [f"{block}: {block.language!r}" for block in BLOCKS if block.language not in LANGUAGES]


def test_output_follows_what_prints_it() -> None:
    for blocks in PAGES.values():
        for before, block in zip([None, *blocks], blocks, strict=False):
            assert block.language != "output" or (before and before.language in ("python", "json", "console")), block


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_examples_of_a_page_do_what_they_say(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGES[page], {"__name__": "example"})


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.is_part or block.file], ids=str)
def test_parts_of_programs_compile(block: Block) -> None:
    compile(block.text, str(block), "exec")


def test_the_state_backend_of_the_page_is_that_of_the_example() -> None:
    block, _ = (block for block in BLOCKS if block.page.endswith("write-a-state-backend.md") and block.is_part)
    example = (ROOT / "examples" / "sqlite_backend" / "sqlite_backend.py").read_text(encoding="utf-8")
    lines = [re.sub(r" +#.*", "", line).strip() for line in block.text.splitlines()[1:]]
    assert not [line for line in lines if line not in example]


def test_every_program_in_a_file_is_run_by_a_test() -> None:
    assert {block.page for block in BLOCKS if block.file} == set(PROGRAMS)
    for page, test in PROGRAMS.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), f"{test} does not run {page}"


def test_every_page_that_uses_spark_is_run_by_a_test() -> None:
    source = (ROOT / ON_SPARK).read_text(encoding="utf-8")
    pages = [page for page, blocks in PAGES.items() if uses_spark(blocks)]
    assert pages and all(Path(page).name in source for page in pages)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=str)
def test_settings_are_known_and_have_the_right_form(block: Block) -> None:
    settings = {key: str(value) for key, value in yaml.safe_load(block.text).items()}
    assert settings
    for key, value in with_new_names(settings).items():
        check_setting(key, value, str(block))


@pytest.mark.parametrize("path", written_pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_keys_and_files_that_a_page_names_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    keys = re.findall(
        r"`((?:execution|state|penstock|restart-strategy|pipeline|rest)\.[a-z][a-z0-9.-]+[a-z0-9])(?:[:=][^`]*)?`", text
    )
    files = re.findall(r"`((?:penstock|tests|scripts|docs)/[\w./-]+)`", text)
    unknown = [key for key in keys if find_option(key) is None and key not in KNOWN and not is_module(key)]
    assert not unknown + [file for file in files if not (ROOT / file).exists()]


KNOWN = {*OLD_KEYS, "penstock.yaml"}


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
