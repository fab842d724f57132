"""Draws docs/images/house.svg: the folders of the package as rooms, and their imports as arrows.

    python scripts/house.py            # draws it
    python scripts/house.py --check    # fails if the picture is not what it would draw

A room stands on the lowest floor that is above everything it imports. Of the arrows, those that follow from others are
left out: if a imports b and b imports c, an import of c by a is allowed and not drawn.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402

PACKAGE = ROOT / "penstock"
PICTURE = ROOT / "docs" / "images" / "house.svg"
COLUMNS = {
    "connectors": 0,
    "testing": 0,
    "cli": 1,
    "datastream": 1,
    "jobmanager": 1,
    "spark": 1,
    "runtime": 1,
    "checkpoint": 1,
    "state": 1,
    "codec": 1,
    "rest": 2,
    "control": 2,
    "storage": 2,
    "model": 2,
    "graph": 3,
    "state_processor": 3,
    "common": 2,
}
"""Chosen so that few arrows cross; a folder that is not here gets a free place on its floor."""
ROOM_WIDTH, ROOM_HEIGHT = 190, 64
COLUMN_STEP, FLOOR_STEP = 214, 108
MARGIN, TOP = 20, 70
OUT_SHIFT = 10
"""So that an arrow out of a room and one into the room below it do not lie on each other."""
STYLE = """
    .paper { fill: #ffffff; }
    .room { fill: #e8eef5; stroke: #46607c; stroke-width: 1.5; }
    .ground { fill: #ececec; stroke: #7a7a7a; stroke-width: 1.5; }
    .arrow { fill: none; stroke: #46607c; stroke-width: 1.4; }
    .tip { fill: #46607c; }
    text { font-family: ui-monospace, Menlo, Consolas, monospace; fill: #1b2733; }
    .name { font-size: 15px; font-weight: bold; }
    .small { font-size: 11px; fill: #44566a; }
    .title { font-family: system-ui, sans-serif; font-size: 17px; font-weight: bold; }
    .note { font-family: system-ui, sans-serif; font-size: 12.5px; fill: #44566a; }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #1d232b; }
      .room { fill: #2c3a4a; stroke: #9db8d6; }
      .ground { fill: #33373c; stroke: #a5a5a5; }
      .arrow { stroke: #9db8d6; }
      .tip { fill: #9db8d6; }
      text { fill: #e9eff6; }
      .small, .note { fill: #b9c8d8; }
    }
"""


@dataclass
class Room:
    """A folder of the package."""

    name: str
    folders: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    floor: int = 0
    column: int = 0

    @property
    def left(self) -> int:
        """The x of its left wall."""
        return MARGIN + self.column * COLUMN_STEP

    @property
    def middle(self) -> int:
        """The x of its middle."""
        return self.left + ROOM_WIDTH // 2


def main(arguments: list[str]) -> int:
    """Draw or check the picture; the exit code."""
    return write_or_check({PICTURE: draw(place(read_rooms(PACKAGE)))}, arguments, "the picture of the package")


def read_rooms(package: Path) -> tuple[dict[str, Room], list[str]]:
    """The folders with what they import, and the single modules that everything stands on."""
    rooms: dict[str, Room] = {}
    modules = sorted(path.stem for path in package.glob("*.py") if not path.stem.startswith("_"))
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        if len(parts) > 1:
            room = rooms.setdefault(parts[0], Room(parts[0]))
            room.folders.update(parts[1:-1])
            room.imports |= set(imported_folders(path, package)) - {parts[0], *modules}
    return rooms, modules


def imported_folders(path: Path, package: Path) -> Iterator[str]:
    """The folders and single modules of the package that a file imports anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if names == [package.name] and isinstance(node, ast.ImportFrom):
            names = [f"{package.name}.{alias.name}" for alias in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            if first == package.name and rest and not rest.startswith("_"):
                yield rest.split(".")[0]


def place(found: tuple[dict[str, Room], list[str]]) -> tuple[dict[str, Room], list[str]]:
    """The same rooms with floors and columns."""
    rooms, modules = found
    for room in rooms.values():
        room.floor = floor_of(room, rooms, ())
    taken: set[tuple[int, int]] = set()
    for room in sorted(rooms.values(), key=lambda room: (room.name not in COLUMNS, room.name)):
        column = COLUMNS.get(room.name, 0)
        while (room.floor, column) in taken:
            column += 1
        taken.add((room.floor, column))
        room.column = column
    return rooms, modules


def floor_of(room: Room, rooms: dict[str, Room], above: tuple[str, ...]) -> int:
    """1 for a room that imports no other."""
    if room.name in above:
        raise SystemExit(f"the folders import each other in a circle: {' -> '.join((*above, room.name))}")
    below = (floor_of(rooms[name], rooms, (*above, room.name)) for name in room.imports if name in rooms)
    return 1 + max(below, default=0)


def arrows(rooms: dict[str, Room]) -> list[tuple[Room, Room]]:
    """The imports that do not follow from others."""

    def reached(name: str) -> set[str]:
        direct = {other for other in rooms[name].imports if other in rooms}
        return direct.union(*(reached(other) for other in direct)) if direct else direct

    found = []
    for room in rooms.values():
        direct = {name for name in room.imports if name in rooms}
        implied = set().union(*(reached(name) for name in direct)) if direct else set()
        found += [(room, rooms[name]) for name in sorted(direct - implied)]
    return found


def draw(found: tuple[dict[str, Room], list[str]]) -> str:
    """The picture."""
    rooms, modules = found
    top_floor = max(room.floor for room in rooms.values())
    width = MARGIN * 2 + COLUMN_STEP * max(room.column for room in rooms.values()) + ROOM_WIDTH
    ground = TOP + top_floor * FLOOR_STEP
    height = ground + ROOM_HEIGHT + MARGIN
    ground_width = width - 2 * MARGIN
    ground_names = "   ".join(f"{name}.py" for name in modules)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t d">',
        '  <title id="t">The folders of penstock and what they import</title>',
        f'  <desc id="d">{_description(rooms)}</desc>',
        f"  <style>{STYLE}  </style>",
        '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'  <rect class="paper" width="{width}" height="{height}" rx="10"/>',
        f'  <text class="title" x="{MARGIN}" y="30">The house: folders of penstock/</text>',
        f'  <text class="note" x="{MARGIN}" y="50">An arrow points to what a folder imports. '
        "Arrows that follow from others are left out; no arrow points up.</text>",
        *_arrow_lines(rooms, top_floor),
        *(line for room in rooms.values() for line in _room_lines(room, top_floor)),
        f'  <rect class="ground" x="{MARGIN}" y="{ground}" width="{ground_width}" height="{ROOM_HEIGHT}" rx="4"/>',
        f'  <text class="name" x="{MARGIN + 12}" y="{ground + 23}">{ground_names}</text>',
        f'  <text class="small" x="{MARGIN + 12}" y="{ground + 42}">the ground: every folder may import these</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _description(rooms: dict[str, Room]) -> str:
    pairs = [f"{upper.name} imports {lower.name}" for upper, lower in arrows(rooms)]
    return f"{len(rooms)} folders on floors, the highest first. {'; '.join(sorted(pairs))}."


def _top(room: Room, top_floor: int) -> int:
    return TOP + (top_floor - room.floor) * FLOOR_STEP


def _room_lines(room: Room, top_floor: int) -> list[str]:
    x, y = room.left, _top(room, top_floor)
    inside = wrap(" ".join(f"{folder}/" for folder in sorted(room.folders)), 26)
    return [
        f'  <rect class="room" x="{x}" y="{y}" width="{ROOM_WIDTH}" height="{ROOM_HEIGHT}" rx="4"/>',
        f'  <text class="name" x="{x + 10}" y="{y + 22}">{room.name}/</text>',
        *(f'  <text class="small" x="{x + 10}" y="{y + 40 + 14 * n}">{line}</text>' for n, line in enumerate(inside)),
    ]


def _arrow_lines(rooms: dict[str, Room], top_floor: int) -> Iterator[str]:
    """Down from a room, across in the space between two floors, down to the other; past rooms, never through them."""
    taken = {(room.floor, room.column) for room in rooms.values()}
    found = sorted(arrows(rooms), key=lambda pair: (-pair[0].floor, pair[0].column, pair[1].column))
    for index, (upper, lower) in enumerate(found):
        out = _port(upper, [b for a, b in found if a is upper], lower) + OUT_SHIFT
        into = _port(lower, [a for a, b in found if b is lower], upper)
        between = range(lower.floor + 1, upper.floor)
        straight = all((floor, upper.column) not in taken for floor in between)
        lane = 8 + index * 7 % 26
        start, end = _top(upper, top_floor) + ROOM_HEIGHT, _top(lower, top_floor)
        across = end - FLOOR_STEP + ROOM_HEIGHT + lane if straight else start + lane
        path = f"M{out} {start} V{across} H{into} V{end}"
        yield f'  <path class="arrow" d="{path}" marker-end="url(#tip)"/>'


def _port(room: Room, others: list[Room], other: Room) -> int:
    """Where on its wall a room's arrow begins or ends: side by side, in the order of the other rooms."""
    ordered = sorted(others, key=lambda one: (one.column, -one.floor))
    return room.middle + round((ordered.index(other) - (len(ordered) - 1) / 2) * 26)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
