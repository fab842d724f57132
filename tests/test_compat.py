"""`import pyflink` means `penstock` once that is asked for."""

import datetime
import importlib
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock.common
import penstock.datastream
from penstock import compat
from penstock.codec.columns import decode_column, encode_column
from penstock.common import Row
from penstock.connectors.file.file_formats import text
from penstock.errors import TypeMismatchError, UsageError
from penstock.model.types import Types


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


def module(name: str, **members: object) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(members)
    return made


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
        ("pyflink.util.java_utils", "no Java objects"),
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


def test_the_real_pyflink_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "version.py").touch()
    monkeypatch.setitem(sys.modules, "pyflink", module("pyflink", __path__=[str(tmp_path)]))
    with pytest.raises(UsageError, match="PyFlink has been imported already"):
        compat.install()
    assert not compat.is_installed()


def test_modules_that_the_program_has_put_in_place_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    own = module("pyflink.java_gateway")
    monkeypatch.setitem(sys.modules, "pyflink", module("pyflink", __path__=[]))
    monkeypatch.setitem(sys.modules, "pyflink.java_gateway", own)
    compat.install()
    try:
        assert importlib.import_module("pyflink.java_gateway") is own
    finally:
        compat.uninstall()


@pytest.mark.usefixtures("installed")
def test_a_module_of_the_programs_own_may_have_pyflinks_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pyflink" / "testing"
    folder.mkdir(parents=True)
    (folder / "my_cases.py").write_text("from pyflink.common import Row\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("pyflink.testing.my_cases").Row is penstock.common.Row
    (tmp_path / "pyflink" / "version.py").touch()  # then it is PyFlink itself
    with pytest.raises(ModuleNotFoundError, match="says what is"):
        importlib.import_module("pyflink.testing.my_others")


@pytest.mark.parametrize(
    "aliases",
    [
        {"pyflink": penstock},
        {"pyflink": module("pyflink"), "pyflink.datastream": penstock.datastream},
        {"pyflink.common": penstock.common},
        {"pyflink.common": module("pyflink.common", Row=penstock.common.Row)},
    ],
    ids=["the package", "a package beside another root", "one module", "a module that imports from here"],
)
def test_a_program_may_make_the_names_mean_the_same_in_its_own_way(
    aliases: dict[str, types.ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, module in aliases.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert compat.is_installed()
    assert Types.SQL_TIMESTAMP().name == "TIMESTAMP_NTZ"
    monkeypatch.undo()
    assert not compat.is_installed()


def test_integers_wrap_around_in_programs_of_pyflink_and_are_refused_in_others(installed: None) -> None:
    kind = Types.ROW([Types.SHORT(), Types.INT(), Types.BASIC_ARRAY(Types.BYTE()), Types.STRING()])
    records = [Row(43878, 9147483648, [128, None], "a"), (1, 2, [3], "b"), {"f0": -32769, "f1": 1, "f2": [], "f3": ""}]
    env = penstock.datastream.StreamExecutionEnvironment.get_execution_environment()
    found = env.from_collection(records, kind)._node.payload.object.records
    assert found[0] == (-21658, 557549056, [-128, None], "a") and found[1] is records[1]
    assert found[2]["f0"] == 32767
    counts = Types.MAP(Types.STRING(), Types.LONG())
    assert env.from_collection([{"a": 2**63}], counts)._node.payload.object.records == ({"a": -(2**63)},)
    compat.uninstall()
    with pytest.raises(TypeMismatchError, match=r"collection\[0\] is"):
        env.from_collection(records, kind)


def test_without_it_pyflink_is_not_there() -> None:
    program = "import importlib.util, penstock.compat; print(importlib.util.find_spec('pyflink'))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "None\n"


def test_text_files_have_flinks_forms_only_in_programs_of_pyflink(installed: None) -> None:
    kind = Types.TUPLE([Types.STRING(), Types.INT()])
    assert text("utf-8").encoder(kind).encode([("ada", 2)]) == b"(ada,2)\n"
    compat.uninstall()
    assert text("utf-8").encoder(kind).encode([("ada", 2)]) == b"('ada', 2)\n"
