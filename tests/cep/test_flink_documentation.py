"""The example sequences of Flink's documentation of CEP, each with the matches that it shows."""

from typing import Any

import pytest

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction
from penstock.testing import Harness
from tests.cep.shapes import Letters

Skip = AfterMatchSkipStrategy


class Words(PatternProcessFunction):
    """A match as its events, in order."""

    def process_match(self, match: Any, ctx: Any) -> Any:
        yield " ".join(event for events in match.values() for event in events)


def matches(pattern: Pattern, stream: str) -> list[str]:
    """The matches in a stream of words, one millisecond after the other."""
    words = stream.split()
    function = CEP.function(pattern, Words())
    harness = Harness.keyed(function, key=lambda word: 0, timestamp=lambda word: words.index(word))
    return harness.feed(words).finish().output


def begin(letters: str, skip: AfterMatchSkipStrategy | None = None) -> Pattern:
    return Pattern.begin(letters, skip).where(Letters(letters))


def test_contiguity_between_two_patterns() -> None:
    stream = "a c b1 b2"
    assert matches(begin("a").next("b").where(Letters("b")), stream) == []
    assert matches(begin("a").followed_by("b").where(Letters("b")), stream) == ["a b1"]
    assert matches(begin("a").followed_by_any("b").where(Letters("b")), stream) == ["a b1", "a b2"]


def test_contiguity_within_a_loop() -> None:
    stream = "a b1 d1 b2 d2 b3 c"

    def loop() -> Pattern:
        return begin("a").followed_by_any("b").where(Letters("b")).one_or_more()

    assert matches(loop().consecutive().next("c").where(Letters("c")), stream) == ["a b3 c"]
    relaxed = ["a b1 c", "a b1 b2 c", "a b1 b2 b3 c", "a b2 c", "a b2 b3 c", "a b3 c"]
    assert sorted(matches(loop().followed_by("c").where(Letters("c")), stream)) == sorted(relaxed)
    combined = loop().allow_combinations().followed_by("c").where(Letters("c"))
    assert sorted(matches(combined, stream)) == sorted([*relaxed, "a b1 b3 c"])


def test_consecutive_and_combinations() -> None:
    stream = "c d1 a1 a2 a3 d2 a4 b"

    def loop(strategy: str) -> Pattern:
        following: Pattern = getattr(begin("c"), strategy)("a")
        return following.where(Letters("a")).one_or_more()

    def ended(pattern: Pattern) -> list[str]:
        return sorted(matches(pattern.followed_by("b").where(Letters("b")), stream))

    assert ended(loop("followed_by").consecutive()) == ["c a1 a2 a3 b", "c a1 a2 b", "c a1 b"]
    assert ended(loop("followed_by")) == ["c a1 a2 a3 a4 b", "c a1 a2 a3 b", "c a1 a2 b", "c a1 b"]
    every = [
        *("c a1 b", "c a1 a2 b", "c a1 a3 b", "c a1 a4 b", "c a1 a2 a3 b", "c a1 a2 a4 b", "c a1 a3 a4 b"),
        *("c a1 a2 a3 a4 b", "c a2 b", "c a2 a3 b", "c a2 a4 b", "c a2 a3 a4 b", "c a3 b", "c a3 a4 b", "c a4 b"),
    ]
    assert ended(loop("followed_by_any").allow_combinations()) == sorted(every)


def test_a_loop_before_another_pattern_makes_a_match_of_every_length() -> None:
    pattern = begin("a").one_or_more().followed_by("b").where(Letters("b"))
    assert matches(pattern, "a1 a2 b") == ["a1 b", "a1 a2 b", "a2 b"]


def test_until_ends_a_loop() -> None:
    found = matches(begin("a").one_or_more().until(Letters("b")), "a1 c a2 b a3")
    assert sorted(found) == ["a1", "a1 a2", "a2", "a3"]


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (Skip.no_skip(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (Skip.skip_to_next(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (Skip.skip_past_last_event(), ["b1 b2 b3 c"]),
        (Skip.skip_to_first("b"), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (Skip.skip_to_last("b"), ["b1 b2 b3 c", "b3 c"]),
    ],
    ids=str,
)
def test_skip_strategies_on_a_loop_before_another_pattern(skip: Skip, expected: list[str]) -> None:
    pattern = begin("b", skip).one_or_more().consecutive().next("c").where(Letters("c"))
    assert matches(pattern, "b1 b2 b3 c") == expected


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (Skip.no_skip(), ["a b c1 c2 c3 d", "b c1 c2 c3 d", "c1 c2 c3 d"]),
        (Skip.skip_to_first("c"), ["a b c1 c2 c3 d", "c1 c2 c3 d"]),
    ],
    ids=str,
)
def test_no_skip_and_skip_to_first(skip: Skip, expected: list[str]) -> None:
    pattern = begin("abc", skip).next("bc").where(Letters("bc"))
    pattern = pattern.next("c").where(Letters("c")).one_or_more().greedy().next("d").where(Letters("d"))
    assert matches(pattern, "a b c1 c2 c3 d") == expected


@pytest.mark.parametrize(
    ("skip", "expected"),
    [(Skip.no_skip(), ["a b1", "a b1 b2", "a b1 b2 b3"]), (Skip.skip_to_next(), ["a b1"])],
    ids=str,
)
def test_no_skip_and_skip_to_next(skip: Skip, expected: list[str]) -> None:
    assert matches(begin("a", skip).followed_by("b").where(Letters("b")).one_or_more(), "a b1 b2 b3") == expected


QUANTIFIERS: list[tuple[Any, list[str]]] = [
    (lambda p: p.times(4), ["a1 a2 a3 a4 b"]),
    (lambda p: p.times(4).optional(), ["a1 a2 a3 a4 b", "b"]),
    (lambda p: p.times(2, 4), ["a1 a2 a3 a4 b", "a1 a2 a3 b", "a1 a2 b", "a2 a3 a4 b", "a2 a3 b", "a3 a4 b"]),
    (lambda p: p.times(2, 4).greedy(), ["a1 a2 a3 a4 b", "a2 a3 a4 b", "a3 a4 b"]),
    (lambda p: p.times(2, 4).optional().greedy(), ["a1 a2 a3 a4 b", "a2 a3 a4 b", "a3 a4 b", "b"]),
    (lambda p: p.one_or_more().greedy(), ["a1 a2 a3 a4 b", "a2 a3 a4 b", "a3 a4 b", "a4 b"]),
    (lambda p: p.one_or_more().optional().greedy(), ["a1 a2 a3 a4 b", "a2 a3 a4 b", "a3 a4 b", "a4 b", "b"]),
    (lambda p: p.times_or_more(3), ["a1 a2 a3 a4 b", "a1 a2 a3 b", "a2 a3 a4 b"]),
    (lambda p: p.times_or_more(3).greedy(), ["a1 a2 a3 a4 b", "a2 a3 a4 b"]),
    (lambda p: p.times_or_more(4).optional(), ["a1 a2 a3 a4 b", "b"]),
    (lambda p: p.times(0, 4).greedy(), ["a1 a2 a3 a4 b", "a2 a3 a4 b", "a3 a4 b", "a4 b", "b"]),
]


@pytest.mark.parametrize(("quantify", "expected"), QUANTIFIERS)
def test_quantifiers(quantify: Any, expected: list[str]) -> None:
    assert sorted(matches(quantify(begin("a")).followed_by("b").where(Letters("b")), "a1 a2 a3 a4 b")) == expected


def test_a_not_pattern_holds_until_an_optional_pattern_behind_it_has_accepted_an_event() -> None:
    def pattern() -> Pattern:
        return (
            begin("a")
            .not_followed_by("b")
            .where(Letters("b"))
            .followed_by_any("c")
            .where(Letters("c"))
            .optional()
            .followed_by_any("d")
            .where(Letters("d"))
        )

    assert matches(pattern(), "a c b d") == ["a c d"]
    assert matches(pattern(), "a b d") == []


def test_a_condition_may_look_at_the_events_before() -> None:
    pattern = (
        begin("m")
        .one_or_more()
        .where(lambda event, ctx: sum(int(e[1:]) for e in ctx.get_events_for_pattern("m")) + int(event[1:]) < 5)
    )
    assert sorted(matches(pattern, "m1 m2 m3 m4")) == ["m1", "m1 m2", "m2", "m3", "m4"]


def test_groups_are_repeated_as_a_whole() -> None:
    def group() -> Pattern:
        return begin("a").followed_by("b").where(Letters("b"))

    stream = "c a1 b1 x a2 b2 d"
    assert matches(begin("c").followed_by(group()).times(2), stream) == ["c a1 a2 b1 b2"]
    loop = begin("c").followed_by(group()).one_or_more()
    assert sorted(matches(loop.followed_by("d").where(Letters("d")), stream)) == ["c a1 a2 b1 b2 d", "c a1 b1 d"]
    strict = begin("c").followed_by(group()).one_or_more().consecutive()
    assert matches(strict.next("d").where(Letters("d")), stream) == []
    optional = begin("c").followed_by(group()).optional().followed_by("d").where(Letters("d"))
    assert sorted(matches(optional, stream)) == ["c a1 b1 d", "c d"]
