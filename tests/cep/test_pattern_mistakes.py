"""A pattern that cannot work is refused when the program is built, with its name and what to write instead."""

from typing import Any

import pytest

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction, SimpleCondition, WithinType
from penstock.cep.pattern_compiler import compile_pattern
from penstock.common import Time
from penstock.errors import ArgumentError, UsageError


def a() -> Pattern:
    return Pattern.begin("a").where(is_letter)


def is_letter(event: Any) -> bool:
    return bool(event)


class Lower(SimpleCondition):
    def filter(self, value: Any) -> bool:  # type: ignore[override]
        return bool(value)


MISTAKES: list[tuple[Any, str]] = [
    (lambda: a().not_followed_by("b").where(is_letter), "pattern 'b': .*can never end; add within"),
    (lambda: a().not_followed_by("b").within(1), "pattern 'b': .*without a condition.*add where"),
    (lambda: a().not_next("b").next("c"), "pattern 'b': .*without a condition"),
    (lambda: a().optional().not_next("b"), "pattern 'b' after 'a': .*write two patterns"),
    (lambda: a().optional().not_followed_by("b"), "'b' after 'a': a not-pattern cannot follow an optional one"),
    (lambda: a().times(0, 2).not_next("b"), "'b' after 'a': a not-pattern cannot follow an optional one"),
    (lambda: a().not_next("b").one_or_more(), r"pattern 'b': one_or_more\(\) does not apply to not_next\(\)"),
    (lambda: a().not_followed_by("b").optional(), r"pattern 'b': optional\(\) does not apply"),
    (lambda: a().not_followed_by("b").greedy(), r"pattern 'b': greedy\(\) does not apply"),
    (lambda: a().next("a").where(is_letter), "two patterns are called 'a'"),
    (lambda: a().followed_by(Pattern.begin("b").next("a")), "two patterns are called 'a'"),
    (lambda: a().greedy(), r"pattern 'a': greedy\(\) needs a repetition; call one_or_more"),
    (lambda: a().one_or_more().allow_combinations().greedy(), "exclude each other"),
    (lambda: a().one_or_more().greedy().allow_combinations(), "exclude each other"),
    (lambda: a().one_or_more().greedy().next("b").optional(), "pattern 'b': .*cannot follow the greedy pattern 'a'"),
    (lambda: a().one_or_more().greedy().next("b").times(0, 2), "pattern 'b': .*cannot follow the greedy pattern 'a'"),
    (lambda: Pattern.begin("a").one_or_more().greedy().next("b"), "'b' is never reached and the match can never end"),
    (lambda: a().until(is_letter), r"pattern 'a': until\(\) ends a repetition without a limit; call one_or_more"),
    (lambda: a().times(2).until(is_letter), r"pattern 'a': until\(\) ends a repetition"),
    (lambda: a().one_or_more().until(is_letter).until(is_letter), r"until\(\) was called before"),
    (lambda: a().one_or_more().times(2), r"pattern 'a': it is already repeated, one_or_more\(\); remove times"),
    (lambda: a().optional().optional(), "pattern 'a': it is already optional"),
    (lambda: a().consecutive(), r"pattern 'a': consecutive\(\) needs a repetition"),
    (lambda: a().times(2).consecutive().allow_combinations(), "call only one of them, and once"),
    (lambda: a().times(3, 2), r"pattern 'a': times\(3, 2\) is not a range"),
    (lambda: a().times(0), r"pattern 'a': times\(0, None\) is not a range"),
    (lambda: a().times_or_more(0), "give a number of 1 or more"),
    (lambda: a().within(0), "at least one millisecond"),
    (lambda: a().within("soon"), "soon"),
    (
        lambda: a().next("b").within(Time.seconds(5), WithinType.PREVIOUS_AND_CURRENT).within(Time.seconds(1)),
        "pattern 'b': its event may come 5000 ms after.*within 1000 ms; give a smaller time",
    ),
    (lambda: Pattern.begin(a()).where(is_letter), r"pattern '\(a ...\)': a group has no condition of its own"),
    (lambda: Pattern.begin(a()).or_(is_letter), "a group has no condition"),
    (lambda: Pattern.begin(a()).subtype(str), "a group has no condition"),
    (lambda: Pattern.begin(a()).one_or_more().greedy(), "a group cannot be greedy"),
    (
        lambda: Pattern.begin(a().not_next("b").where(is_letter)),
        r"pattern 'b': a group cannot end with not_next\(\); put the not-pattern after the group",
    ),
    (lambda: Pattern.begin("a", AfterMatchSkipStrategy.skip_to_last("x")), "skips to 'x'.*give one of 'a'"),
]
ARGUMENTS: list[tuple[Any, str]] = [
    (lambda: Pattern.begin(""), "cannot name a pattern"),
    (lambda: Pattern.begin("a:b"), "give text without ':'"),
    (lambda: a().next(3), "cannot name a pattern"),  # type: ignore[arg-type]
    (lambda: a().not_next(a()), r"not_next\(\) takes a name, not a group"),  # type: ignore[arg-type]
    (lambda: a().where(3), "pattern 'a': a condition is a function such as lambda event"),  # type: ignore[arg-type]
    (lambda: a().where(Lower), r"pattern 'a': a condition is an object; write Lower\(\)"),  # type: ignore[arg-type]
    (lambda: a().where(lambda: True), "write lambda event: ... or lambda event, ctx"),  # type: ignore[arg-type]
    (lambda: a().where(a_coroutine), "returns true or false; write def"),  # type: ignore[arg-type]
    (lambda: a().subtype("str"), r"subtype\(\) takes a class"),  # type: ignore[arg-type]
    (lambda: a().within(1, "first"), "is not a WithinType"),  # type: ignore[arg-type]
    (lambda: Pattern.begin("a", "skip"), "is not a skip strategy"),  # type: ignore[arg-type]
    (lambda: AfterMatchSkipStrategy.skip_to_first(None), "takes the name of a pattern"),  # type: ignore[arg-type]
    (lambda: CEP.function("a", Nothing()), "takes a Pattern, not 'a'"),  # type: ignore[arg-type]
    (lambda: CEP.function(a(), Nothing), "not the class Nothing"),  # type: ignore[arg-type]
    (lambda: CEP.function(a(), Nothing(), 3), "a comparator is a function of two events, not 3"),
]


async def a_coroutine(event: Any) -> bool:
    return True


class Nothing(PatternProcessFunction):
    def process_match(self, match: Any, ctx: Any) -> Any:
        return None


@pytest.mark.parametrize(("build", "message"), MISTAKES)
def test_a_pattern_that_cannot_work_is_refused(build: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compile_pattern(build())


@pytest.mark.parametrize(("build", "message"), ARGUMENTS)
def test_an_argument_of_another_kind_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build()


def test_a_pattern_shows_its_steps() -> None:
    pattern = a().one_or_more().followed_by(Pattern.begin("b").next("c")).optional()
    assert repr(pattern) == "a[one_or_more()] followed_by (b[one] next c[one])[one.optional()]"
    assert pattern.get_previous() is not None and pattern.get_quantifier().is_optional
    assert str(Pattern.begin("x").times_or_more(2).greedy().get_quantifier()) == "times_or_more(2).greedy()"
    assert str(Pattern.begin("x").times(2, 3).get_quantifier()) == "times(2, 3)"
