"""The tutorial docs/tutorial/upgrade-a-job.md as it is written: a savepoint, then other code, subtasks and backend.

What comes out is held against a model of both operators, which is what a job that never stops emits.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.process.programs import ROOT, Started, environment
from tests.waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.process

PAGE = ROOT / "docs" / "tutorial" / "upgrade-a-job.md"
CUSTOMERS, PRODUCTS = [f"customer {n}" for n in range(17)], ["tea", "jam", "pot"]
ORDERS_PER_FILE = 40
FIRST_FILE_S = 1_767_225_600
SAVEPOINT = re.compile(r"\S*savepoint-[0-9a-f]{6}-[0-9a-f]{12}")


def orders_of(file: int) -> list[dict[str, Any]]:
    numbers = range(file * ORDERS_PER_FILE, (file + 1) * ORDERS_PER_FILE)
    return [
        {"customer": CUSTOMERS[n * 7 % 17], "product": PRODUCTS[n % 3], "cents": n * 7919 % 50_000} for n in numbers
    ]


def write_orders(folder: Path, files: range) -> None:
    for file in files:
        text = "".join(json.dumps(order) + "\n" for order in orders_of(file))
        path = folder / "orders" / f"{file}.json"
        path.with_name(f".{file}").write_text(text, encoding="utf-8")
        os.utime(path.with_name(f".{file}"), (FIRST_FILE_S + file, FIRST_FILE_S + file))  # they are read by their age
        path.with_name(f".{file}").rename(path)


def write_programs(folder: Path) -> None:
    blocks = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert [name for name, _ in blocks] == ["shop_v1.py", "shop_v2.py"]
    for name, text in blocks:
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "orders").mkdir()


def results(folder: Path, name: str) -> "Counter[str]":
    """The rows of finished files."""
    paths = [path for path in (folder / "out" / name).rglob("*") if path.is_file()]
    shown = [path for path in paths if not any(p.startswith((".", "_")) for p in path.relative_to(folder).parts)]
    return Counter(line for path in shown for line in path.read_text(encoding="utf-8").splitlines())


def expected(files: range) -> tuple["Counter[tuple[Any, ...]]", "Counter[tuple[Any, ...]]"]:
    """What a job that never stops emits for these files: the model of both operators."""
    sums: dict[str, tuple[int, int]] = {}
    bought: Counter[tuple[str, str]] = Counter()
    totals: Counter[tuple[Any, ...]] = Counter()
    products: Counter[tuple[Any, ...]] = Counter()
    for order in (order for file in files for order in orders_of(file)):
        customer, product = order["customer"], order["product"]
        count, cents = sums.get(customer, (0, 0))
        count, cents = count + 1, cents + order["cents"]
        sums[customer] = count, cents
        bought[customer, product] += 1
        totals[customer, count, cents] += 1
        products[customer, product, bought[customer, product]] += 1
    return totals, products


def rows(lines: "Counter[str]") -> "Counter[tuple[Any, ...]]":
    return Counter({tuple(json.loads(line).values()): count for line, count in lines.items()})


def penstock(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "penstock", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stdout}\n{done.stderr}"
    return done.stdout


def start(folder: Path, *arguments: str) -> Started:
    return Started.of([sys.executable, "-m", "penstock", "run", *arguments], folder)


def await_results(job: Started, folder: Path, files: range) -> None:
    count = len(files) * ORDERS_PER_FILE

    def enough() -> bool:
        assert job.process.poll() is None, f"it has ended: {job.out}\n{job.err}"
        return all(results(folder, name).total() >= count for name in ("totals", "products"))

    wait_until(enough)


def test_n2_n3_n8_o6_o7_o8_o10_o11_an_upgrade_gives_the_results_of_a_job_that_never_stopped(tmp_path: Path) -> None:
    first, then, everything = range(4), range(4, 8), range(8)
    write_programs(tmp_path)
    write_orders(tmp_path, first)
    old = start(tmp_path, "-p", "2", "shop_v1.py")
    await_results(old, tmp_path, first)
    kept = _path_in(penstock(tmp_path, "savepoint", "shop", "savepoints"))
    stopped = penstock(tmp_path, "stop", "shop", "-p", "savepoints")
    savepoint = _path_in(stopped)
    assert old.process.wait(LIMIT_S) == 0, old.err
    job_id = old.out.splitlines()[-1].removeprefix("Job ").removesuffix(" FINISHED")
    assert stopped.splitlines()[0] == f'Suspending job "{job_id}" with a CANONICAL savepoint.'
    assert {path.name for path in (tmp_path / "savepoints").iterdir()} == {Path(kept).name, Path(savepoint).name}
    write_orders(tmp_path, then)  # while nobody reads

    told = penstock(tmp_path, "restore", "--check", "shop_v2.py", savepoint)
    assert told.splitlines()[1:] == _shown_check(), told

    new = start(tmp_path, "-s", savepoint, "-p", "5", "-Dstate.backend.type=rocksdb", "shop_v2.py")
    await_results(new, tmp_path, everything)
    penstock(tmp_path, "stop", "shop", "-p", "savepoints")
    assert new.process.wait(LIMIT_S) == 0, new.err
    for name, model in zip(("totals", "products"), expected(everything), strict=True):
        assert rows(results(tmp_path, name)) == model
    assert rows(results(tmp_path, "largest")) == _largest(then)


def _shown_check() -> list[str]:
    """What the tutorial shows of `restore --check`, without the line that names the savepoint."""
    block = re.search(r"^\$ penstock restore --check [^\n]*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert block is not None
    return block.group(1).splitlines()[1:]


def _largest(files: range) -> "Counter[tuple[Any, ...]]":
    """The new operator starts with nothing, at the first order behind the savepoint."""
    largest: dict[str, int] = {}
    found: Counter[tuple[Any, ...]] = Counter()
    for order in (order for file in files for order in orders_of(file)):
        if order["cents"] > largest.get(order["product"], 0):
            largest[order["product"]] = order["cents"]
            found[order["product"], order["cents"]] += 1
    return found


def _path_in(text: str) -> str:
    found = SAVEPOINT.search(text)
    assert found is not None, text
    return found.group()
