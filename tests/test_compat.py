"""`import pyflink` means `penstock` once that is asked for."""

import datetime
import importlib
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

import penstock.common
import penstock.datastream
from penstock import compat
from penstock.codec.columns import decode_column, encode_column
from penstock.connectors.file.file_formats import text
from penstock.errors import UsageError
from penstock.model.types import Types


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


@pytest.mark.usefixtures("installed")
def test_a_module_of_pyflink_is_the_module_of_the_same_path_here() -> None:
    pyflink = importlib.import_module("pyflink.common")
    assert pyflink is penstock.common and pyflink.Row is penstock.common.Row
    assert pyflink.__name__ == "penstock.common" and pyflink.__spec__ is penstock.common.__spec__
    nested = importlib.import_module("pyflink.datastream.connectors.file_system")
    assert nested is importlib.import_module("penstock.datastream.connectors.file_system")
    compat.install()  # again changes nothing
    assert sum(type(finder).__name__ == "_PyFlinkFinder" for finder in sys.meta_path) == 1


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pyflink.table", "use Spark's DataFrames"),
        ("pyflink.table.expressions", "use Spark's DataFrames"),
        ("pyflink.java_gateway", "no Java objects"),
        ("pyflink.datastream.nothing", "says what is"),
    ],
)
def test_a_module_that_is_not_there_says_why(name: str, reason: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=reason):
        importlib.import_module(name)


@pytest.mark.usefixtures("installed")
def test_a_missing_library_is_not_taken_for_a_missing_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> types.ModuleType:
        raise ModuleNotFoundError("no library", name="library")

    monkeypatch.setattr("penstock.compat.importlib.import_module", import_module)
    with pytest.raises(ModuleNotFoundError, match="no library"):
        __import__("pyflink.common.time")


@pytest.mark.usefixtures("installed")
def test_timestamps_have_no_time_zone_and_a_collection_may_be_empty() -> None:
    noon = datetime.datetime(2021, 1, 9, 12)
    column = encode_column([noon], Types.SQL_TIMESTAMP())
    assert decode_column(column, Types.SQL_TIMESTAMP()) == [noon]
    env = penstock.datastream.StreamExecutionEnvironment.get_execution_environment()
    assert env.from_collection([]).get_type() == Types.PICKLED_BYTE_ARRAY()


def test_the_real_pyflink_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyflink", types.ModuleType("pyflink"))
    with pytest.raises(UsageError, match="PyFlink has been imported already"):
        compat.install()
    assert not compat.is_installed()


def test_without_it_pyflink_is_not_there() -> None:
    program = "import importlib.util, penstock.compat; print(importlib.util.find_spec('pyflink'))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "None\n"


def test_text_files_have_flinks_forms_only_in_programs_of_pyflink(installed: None) -> None:
    kind = Types.TUPLE([Types.STRING(), Types.INT()])
    assert text("utf-8").encoder(kind).encode([("ada", 2)]) == b"(ada,2)\n"
    compat.uninstall()
    assert text("utf-8").encoder(kind).encode([("ada", 2)]) == b"('ada', 2)\n"
