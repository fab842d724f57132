"""Citations of the specification: every id that code, tests and docs cite is in docs/internals, and users see none.

How ids are cited is in docs/internals/README.md. An id that two pages have must be cited with its page; once a file has
done so, it may use the id alone.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INTERNALS = ROOT / "docs" / "internals"
CODE = [path for part in ("penstock", "tests", "scripts", "bench") for path in sorted((ROOT / part).rglob("*.py"))]
PROSE = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "Makefile", ROOT / "pyproject.toml"]

ID = r"(?:B-[CMRU]\d{1,2}|I-\d{1,2}|[A-X](?:0[1-9]|[1-9]\d?))"
PAGES = {
    "protocol": "protocol",
    "rule": "protocol",
    "rules": "protocol",
    "crash point": "protocol",
    "crash points": "protocol",
    "feature": "features",
    "features": "features",
    "row": "features",
    "rows": "features",
    "reliability": "reliability",
    "security": "reliability",
    "mutant": "reliability",
    "mutants": "reliability",
    "workload": "reliability",
}
"""The word before an id -> the page that has it."""
CITATION = re.compile(rf"\b({'|'.join(PAGES)})\s+({ID}(?:(?:,|,? and|,? or|,? but|\s+to)\s+{ID})*)", re.IGNORECASE)
SECTION = re.compile(r"\bPROTOCOL,? sections? (\d+)(?:(?:,| and| to) (\d+)\b)?")
NOT_HERE = re.compile(
    r"\bDESIGN\b|\bSTYLE\b|(?<![\w-])(?:API|PROTOCOL|spark)\.md\b|\b(?:features|reliability|PROTOCOL) \d"
)
"""Documents and parts of documents that are not in the repository."""
OTHER_WORDS = {"S3"}
"""Look like ids, and mean something else where no page is named."""
GENERATED = re.compile(r"<!-- rows: begin -->.*?<!-- rows: end -->", re.DOTALL)
TEST_NAME = re.compile(r"test_((?:(?:security_s|rest_r|cli_c|b_?[mcru]|[a-x])\d+_)+)")
TEST_PREFIXES = {"security_s": "S", "rest_r": "B-R", "cli_c": "B-C"}
PUBLIC = ("cli/", "common/", "datastream/", "errors.py", "model/sink.py", "state_processor/")
"""Where docstrings are help texts, or pages of the reference."""


def defined_in(page: str) -> set[str]:
    """The ids of a page: headings and table rows that begin with one."""
    text = (INTERNALS / f"{page}.md").read_text(encoding="utf-8")
    return set(re.findall(rf"^(?:\| |### )({ID})(?: \||\s)", text, re.MULTILINE))


DEFINED = {page: defined_in(page) for page in ("protocol", "features", "reliability")}
SECTIONS = re.findall(r"^## (\d+)\.", (INTERNALS / "protocol.md").read_text(encoding="utf-8"), re.MULTILINE)


def pages_with(name: str) -> list[str]:
    return [page for page, ids in DEFINED.items() if name in ids]


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def comments(source: str) -> Iterator[str]:
    """The comments of a Python file, and its docstrings, those of attributes too."""
    if not (re.search(ID, source) or NOT_HERE.search(source)):
        return  # most files, and reading their tokens takes long
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if is_docstring(node):
            assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            yield str(node.value.value)


def text_of(path: Path) -> str:
    """What a file says to people; generated lists of tests are left out."""
    text = path.read_text(encoding="utf-8")
    return "\n".join(comments(text)) if path.suffix == ".py" else GENERATED.sub("", text)


def expand(listed: str) -> Iterator[str]:
    """All ids of "C2 to C4, C7", in order."""
    last = ""
    for joint, name in re.findall(rf"(\bto\s+)?({ID})\b", listed):
        if joint and last:
            kind, first = re.fullmatch(r"(.*?)(\d+)", last).groups()  # type: ignore[union-attr]
            for number in range(int(first) + 1, int(re.sub(r"\D", "", name))):
                yield f"{kind}{number:0{len(first) if first.startswith('0') else 0}d}"
        yield name
        last = name


def problems(text: str, own_page: str | None = None) -> Iterator[str]:
    """What is wrong with the citations of a text; `own_page`: the page of the specification that it is."""
    named: set[str] = set()
    for word, listed in CITATION.findall(text):
        page = PAGES[word.lower()]
        for name in expand(listed):
            named.add(name)
            if name not in DEFINED[page]:
                yield f"{page} has no {name}"
    for section in (number for found in SECTION.findall(text) for number in found if number):
        if section not in SECTIONS:
            yield f"protocol has no section {section}"
    bare = CITATION.sub("", text)
    for name in set(re.findall(rf"(?<![\w.\-/#\"']){ID}(?![\w.\-]|\(|\")", bare)) - named - OTHER_WORDS:
        found = pages_with(name)
        if own_page in found:
            continue
        if len(found) != 1:
            yield f"{name} is in {' and in '.join(found)}: name the page" if found else f"no page has {name}"
    yield from (f"{found!r} is not in this repository" for found in NOT_HERE.findall(text))


def ids_of_test(name: str) -> Iterator[set[str]]:
    """For each id at the start of a test's name what it may mean."""
    match = TEST_NAME.match(name)
    for prefix, number in re.findall(r"(security_s|rest_r|cli_c|b_?[mcru]|[a-x])(\d+)_", match[1] if match else ""):
        if prefix.startswith("b") and len(prefix) > 1:
            yield {f"B-{prefix[-1].upper()}{number}"}
        elif prefix in TEST_PREFIXES:
            yield {f"{TEST_PREFIXES[prefix]}{number}"}
        else:
            yield {f"{prefix.upper()}{number}", f"{prefix.upper()}-{number}"}


def expect_none(found: Iterable[str]) -> None:
    listed = "\n".join(sorted(found))
    assert not listed, f"\n{listed}"


def test_every_cited_id_is_in_the_specification() -> None:
    own = {INTERNALS / f"{page}.md": page for page in DEFINED}
    expect_none(
        f"{path.relative_to(ROOT)}: {problem}"
        for path in [*CODE, *PROSE]
        if path != Path(__file__)
        for problem in problems(text_of(path), own.get(path))
    )


def test_every_id_in_the_name_of_a_test_is_in_the_specification() -> None:
    names = [
        (path, node.name)
        for path in CODE
        if path.name.startswith("test_")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    expect_none(
        f"{path.relative_to(ROOT)}: {name}: no page has {' or '.join(sorted(meanings))}"
        for path, name in names
        for meanings in ids_of_test(name)
        if not any(map(pages_with, meanings))
    )


def messages(path: Path) -> Iterator[str]:
    """Texts that users may see: strings that are no docstrings, help texts of commands, docstrings of public names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and is_docstring(node)]
    is_shown = path.relative_to(ROOT / "penstock").as_posix().startswith(PUBLIC)
    own = docstrings[:1] if ast.get_docstring(tree) is not None else []  # the module's, which comes first
    hidden = {id(node) for node in (own if is_shown else docstrings)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.value


def test_messages_that_users_see_cite_no_id() -> None:
    cited = re.compile(rf"\bPROTOCOL\b|(?<![\w.\-]){ID}(?![\w.\-])")
    expect_none(
        f"{path.relative_to(ROOT)}: {text!r}"
        for path in CODE
        if path.is_relative_to(ROOT / "penstock") and path.name != "failpoint.py"
        for text in messages(path)
        if " " in text and set(cited.findall(text)) - OTHER_WORDS
    )


def test_the_checks_find_what_they_look_for() -> None:
    """A canary: a check that finds nothing in bad text would pass for ever."""
    design = "DES" + "IGN"
    assert list(problems("PROTOCOL R99")) == ["protocol has no R99"]
    assert list(problems("rows D1 to D18")) == ["features has no D18"]
    assert list(problems("(R4)")) == ["R4 is in protocol and in features: name the page"]
    assert list(problems("PROTOCOL R4, and later (R4)")) == []
    assert list(problems("see Z9 and R99")) == ["no page has R99"]
    assert list(problems(f"{design} 5.1")) == [f"{design!r} is not in this repository"]
    assert list(problems("PROTOCOL section 42")) == ["protocol has no section 42"]
    assert list(ids_of_test("test_k7_n2_b_m05_rest_r1_x")) == [{"K7", "K-7"}, {"N2", "N-2"}, {"B-M05"}, {"B-R1"}]
