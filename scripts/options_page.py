"""Writes docs/reference/options.md, the reference of all options, from their declarations.

python scripts/options_page.py          write the page
python scripts/options_page.py --check  fail if the page is not current
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.model.option import KeyFamily, Option
from penstock.model.options import (
    autoscale_options,
    availability_options,
    checkpointing_options,
    execution_options,
    log_options,
    pipeline_options,
    rest_options,
    restart_options,
    rocksdb_options,
    state_options,
)
from penstock.model.options.catalogue import FAMILIES, OPTIONS, families_in, options_in

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"
SECTIONS: dict[str, ModuleType] = {
    "Job": pipeline_options,
    "Checkpoints and savepoints": checkpointing_options,
    "Restarts": restart_options,
    "Epochs and processes": execution_options,
    "State": state_options,
    "RocksDB": rocksdb_options,
    "Control server": rest_options,
    "Logs": log_options,
    "Standby drivers and supervision": availability_options,
    "Autoscaler": autoscale_options,
}
HEAD = """\
# Options

<!-- Written by scripts/options_page.py from penstock/model/options. Do not edit. -->

Options are set in the program, on the command line, or in files:

```python
Configuration.from_dict({"execution.checkpointing.interval": "5 s"})
```

```bash
penstock run -Dexecution.checkpointing.interval=5s job.py
```

```yaml
# penstock.yaml
execution.checkpointing.interval: 5 s
restart-strategy:
  type: fixed-delay
  fixed-delay.attempts: 3
```

If a key is set in several places, the first of these wins:

1. the flags `-s`, `-n` and `-cm` of `penstock run`;
2. the program;
3. the flag `-p`, which sets `parallelism.default`, and `-Dkey=value`;
4. `penstock.yaml` in the working folder;
5. `$PENSTOCK_CONF_DIR/penstock.yaml`; without that variable, `penstock/penstock.yaml` in `$XDG_CONFIG_HOME` or else in
   `~/.config`;
6. `/etc/penstock/penstock.yaml`.

Files are merged key by key. `penstock info job.py` shows where each setting of a program comes from. An unknown key is
an error, with file and line. Keys of Spark (`spark.*`) are passed on to Spark.

- A *duration* is a number with a unit: `500 ms`, `5 s`, `10 min`, `1 h`, `2 d`; milliseconds without one.
- A *size* is a number with a unit: `64 kb`, `256 mb`, `1 gb` (powers of 1024); bytes without one.
- Words are accepted in upper and lower case, and with `_` for `-`.
- *Old names* are those of older versions of Flink. They still work, and a line at the start of the job names the new
  key.
"""
WITHOUT_EFFECT = """
## Keys without effect

These keys are accepted, so that a configuration of Flink can be used as it is. When the job starts, a line on stderr
says why each of them has no effect. A key that ends in `*` stands for all keys with that beginning.

| key | why it has no effect |
|---|---|
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, module in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| key | type | default | what it does |\n|---|---|---|---|\n")
        parts += rows(module)
    parts.append(WITHOUT_EFFECT)
    reasons = {option.key: option.no_effect for option in OPTIONS.values() if option.no_effect}
    reasons |= {family.prefix + "*": family.no_effect for family in FAMILIES if family.no_effect}
    parts += [f"| `{key}` | {cell(reason or '')} |\n" for key, reason in sorted(reasons.items())]
    return "".join(parts)


def rows(module: ModuleType) -> Iterator[str]:
    """The options of a module that have an effect."""
    entries: list[Option[Any] | KeyFamily] = [*options_in(module), *families_in(module)]
    for entry in entries:
        if entry.no_effect:
            continue
        if isinstance(entry, KeyFamily):
            yield f"| `{entry.prefix}*` | text | none | {cell(entry.text)} |\n"
            continue
        old = ", ".join(f"`{key}`" for key in entry.old_keys)
        text = entry.text + (f" *Old names:* {old}." if old else "")
        yield f"| `{entry.key}` | {cell(entry.type.describe())} | {cell(entry.describe_default())} | {cell(text)} |\n"


def cell(text: str) -> str:
    """The text as a cell of a table."""
    return text.replace("|", "\\|")


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if the page is not current")
    wanted = page()
    if parser.parse_args().check:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != wanted:
            print(f"{PAGE} is not current: run `python scripts/options_page.py`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
