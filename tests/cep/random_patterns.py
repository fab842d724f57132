"""Random patterns and streams of few letters, so that many things fit."""

from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any

from hypothesis import strategies as st

from penstock.cep import AfterMatchSkipStrategy
from tests.cep.shapes import ANY, RELAXED, STRICT, Group, Not, One, Shape

letters = st.sets(st.sampled_from("abc"), min_size=1, max_size=2).map(lambda found: "".join(sorted(found)))
contiguity = st.sampled_from([STRICT, RELAXED, ANY])
streams = st.lists(st.sampled_from("abcd"), min_size=1, max_size=6)


@st.composite
def sequences(draw: Any, *, pending: bool = False, depth: int = 1, names: Iterator[str] | None = None) -> Any:
    """One to three patterns, of which some are groups. `pending`: the last may be a not_followed_by."""
    names = names if names is not None else iter(ascii_lowercase[::-1])
    count = draw(st.integers(1, 3))
    parts: list[Shape] = []
    for index in range(count):
        kind = draw(st.sampled_from(["one", "one", "one", "not", "group"]))
        before = parts[-1] if parts else None
        is_last = index == count - 1
        if kind == "not" and isinstance(before, One | Group) and not before.optional and not (is_last and depth == 0):
            kinds = ["not_next", "not_followed_by"] if pending or not is_last else ["not_next"]
            parts.append(Not(next(names), draw(letters), draw(st.sampled_from(kinds))))
        elif kind == "group" and depth:
            parts.append(draw(groups(before, names)))
        else:
            must_occur = depth == 0 and is_last and not any(isinstance(p, One) and not p.optional for p in parts)
            parts.append(draw(single_patterns(next(names), before, must_occur=must_occur)))
    return tuple(parts)


@st.composite
def single_patterns(draw: Any, name: str, before: Shape | None, *, must_occur: bool) -> One:
    """A pattern with any quantifier that is allowed after the one before."""
    kind = draw(st.sampled_from(["single", "times", "loop"]))
    low = draw(st.integers(1, 3)) if kind == "times" else draw(st.integers(1, 2)) if kind == "loop" else 1
    high = draw(st.integers(low, 3)) if kind == "times" else None if kind == "loop" else 1
    inner = draw(contiguity) if kind != "single" else RELAXED
    may_be_absent = not must_occur and not (isinstance(before, One) and before.greedy)
    return One(
        name,
        draw(letters),
        draw(contiguity),
        low,
        high,
        optional=may_be_absent and draw(st.booleans()),
        greedy=kind != "single" and inner != ANY and draw(st.booleans()),
        inner=inner,
        until=draw(st.sampled_from(["", "", "a", "c"])) if kind == "loop" else "",
        single=kind == "single",
    )


@st.composite
def groups(draw: Any, before: Shape | None, names: Iterator[str]) -> Group:
    """A group with any quantifier that is allowed after the pattern before."""
    parts = draw(sequences(depth=0, names=names))
    kind = draw(st.sampled_from(["single", "times", "loop"]))
    low = draw(st.integers(1, 2)) if kind == "times" else 1
    high = draw(st.integers(low, 2)) if kind == "times" else None if kind == "loop" else 1
    return Group(
        parts,
        draw(contiguity),
        low,
        high,
        optional=not (isinstance(before, One) and before.greedy) and draw(st.booleans()),
        inner=draw(contiguity) if kind != "single" else RELAXED,
        until=draw(st.sampled_from(["", "", "a"])) if kind == "loop" else "",
        single=kind == "single",
    )


@st.composite
def skip_strategies(draw: Any, parts: tuple[Shape, ...]) -> AfterMatchSkipStrategy:
    """Any strategy; those that skip to a pattern choose one of the shape's."""
    name = draw(st.sampled_from(names_of(parts)))
    return draw(  # type: ignore[no-any-return]
        st.sampled_from(
            [
                AfterMatchSkipStrategy.no_skip(),
                AfterMatchSkipStrategy.skip_to_next(),
                AfterMatchSkipStrategy.skip_past_last_event(),
                AfterMatchSkipStrategy.skip_to_first(name),
                AfterMatchSkipStrategy.skip_to_last(name),
            ]
        )
    )


def names_of(parts: tuple[Shape, ...]) -> list[str]:
    """The names of the patterns that accept events."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, Group):
            found += names_of(part.parts)
        elif isinstance(part, One):
            found.append(part.name)
    return found
