"""What the page would show: its own functions get what the endpoints answer, and Node.js reads what they make of it."""

import json
from pathlib import Path
from typing import Any

from penstock.rest import page
from tests.rest.node import run_node

_SCRIPT = """
import { readFileSync } from 'node:fs';
import { checkpointsPage } from './checkpoints.js';
import { checkpointPage } from './checkpoint.js';
import { rescales } from './rescale.js';
const text = (node) => {
  if (node === null || node === undefined || typeof node === 'boolean') return '';
  if (Array.isArray(node)) return node.map(text).join('');
  if (typeof node !== 'object') return String(node);
  if (typeof node.type !== 'function') return text(node.props.children);
  if (node.type.prototype?.render) return typeof node.props.text === 'string' ? node.props.text : '';
  return text(node.type(node.props));
};
const found = { cards: {}, tables: {} };
const all = (node, name) => {
  if (Array.isArray(node)) return node.flatMap((one) => all(one, name));
  if (node === null || typeof node !== 'object') return [];
  return [...(node.type === name ? [node] : []), ...all(node.props?.children, name)];
};
const walk = (node, card) => {
  if (Array.isArray(node)) { node.forEach((one) => walk(one, card)); return; }
  if (node === null || typeof node !== 'object') return;
  const inside = node.type === 'section' ? text(all(node, 'h2')[0]) : card;
  if (node.type === 'dl') {
    const names = all(node, 'dt').map(text), values = all(node, 'dd').map(text);
    names.forEach((name, index) => { (found.cards[inside] ??= {})[name] = values[index]; });
  }
  if (node.type === 'table') {
    const heads = all(all(node, 'thead'), 'th').map(text);
    const rows = all(all(node, 'tbody'), 'tr').map((row) => [...all(row, 'th'), ...all(row, 'td')].map(text));
    const named = (row) => Object.fromEntries(row.map((cell, at) => [heads[at], cell]));
    found.tables[text(all(node, 'caption'))] = rows.map(named);
  }
  walk(node.props?.children, inside);
};
const given = JSON.parse(readFileSync('given.json', 'utf8'));
const whole = WHOLE;
walk(whole, '');
found.text = text(whole);
console.log(JSON.stringify(found));
"""


def shown(folder: Path, whole: str, given: dict[str, Any]) -> Any:
    """Of an expression with `given`: the labels with their values by card, and the rows of tables by caption."""
    scripts = folder / "scripts"
    for name, content in page.page_files().items():
        (scripts / name).parent.mkdir(parents=True, exist_ok=True)
        (scripts / name).write_bytes(content)
    (scripts / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (scripts / "given.json").write_text(json.dumps(given), encoding="utf-8")
    (scripts / "main.js").write_text(_SCRIPT.replace("WHOLE", whole), encoding="utf-8")
    return json.loads(run_node(scripts, "main.js", {"TZ": "UTC"}))
