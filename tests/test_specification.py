"""docs/internals against the code: the files, functions, log entries, crash points, fields and magics that it names."""

import re
from pathlib import Path
from typing import get_args

import msgspec

from penstock.checkpoint.log import entries
from penstock.checkpoint.snapshot import manifest
from penstock.failpoint import NAMES
from penstock.model import snapshot
from penstock.state.format import snapshot_file
from penstock.state.operator import operator_file

ROOT = Path(__file__).resolve().parent.parent
INTERNALS = ROOT / "docs" / "internals"
STORED = [
    *get_args(entries.Entry),
    entries.Record,
    operator_file.Entry,
    snapshot.Committable,
    snapshot.Manifest,
    snapshot.NativeName,
    snapshot.OperatorStateInfo,
    snapshot.SourcePosition,
    snapshot.StateFile,
    snapshot.StateTableInfo,
    snapshot.SubtaskSnapshot,
    snapshot.TableFile,
    snapshot_file.TableEntry,
]
"""The structs whose fields are on disk."""
MAGICS = [entries.MAGIC, manifest.MAGIC, snapshot_file.MAGIC.decode(), operator_file.MAGIC.decode()]


def page(name: str) -> str:
    return (INTERNALS / name).read_text(encoding="utf-8")


def test_the_files_and_functions_that_the_docs_name_are_there() -> None:
    found = []
    for path in (*INTERNALS.glob("*.md"), ROOT / "docs" / "architecture.md"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"`((?:penstock|tests|scripts|bench)/[\w/]+(?:\.py)?)`", text):
            if not (ROOT / name).exists():
                found.append(f"{path.name}: {name}")
        for name, functions in re.findall(r"`(penstock/[\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", text):
            source = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).exists() else ""
            for function in re.findall(r"[\w.]+", functions):
                if not re.search(rf"\b(?:def|class) {function.rpartition('.')[2]}\b", source):
                    found.append(f"{path.name}: {function} in {name}")
    assert found == []


def test_the_specification_names_every_log_entry_and_every_crash_point() -> None:
    tags = {entry.__struct_config__.tag for entry in get_args(entries.Entry)}
    for name, section in (("protocol.md", "## 2. The job log"), ("formats.md", "## 2. Log entries")):
        text = page(name).partition(section)[2].partition("\n## ")[0]
        assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == tags, name
    assert set(re.findall(r"^\| (C\d+) \|", page("protocol.md"), re.MULTILINE)) == set(NAMES)


def test_the_formats_name_every_field_and_every_magic() -> None:
    text = page("formats.md")
    fields = {field.encode_name for struct in STORED for field in msgspec.structs.fields(struct)}
    assert sorted(field for field in fields if not re.search(rf"[`\"]{field}[`\"]", text)) == []
    assert [magic for magic in MAGICS if magic not in text] == []
