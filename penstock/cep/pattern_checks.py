"""Finds mistakes that only show in the whole sequence of patterns."""

from collections.abc import Iterator

from penstock.cep.pattern import GroupPattern, Pattern, parts_of
from penstock.cep.quantifier import ConsumingStrategy, WithinType
from penstock.errors import UsageError


def check_pattern(pattern: Pattern) -> None:
    """Raise UsageError unless the pattern can match, and name the part that is wrong."""
    _check_names(pattern)
    _check_ends(pattern)
    for part in _all_parts(pattern):
        _check_part(part)
    _check_windows(pattern)
    name = pattern.get_after_match_skip_strategy().get_pattern_name()
    names = [part.get_name() for part in _all_parts(pattern) if not part._strategy.is_negative]
    if name is not None and name not in names:
        raise UsageError(
            f"the skip strategy skips to {name!r}, but no pattern of that name accepts events; give one of "
            f"{', '.join(map(repr, names))}"
        )


def first_to_last_ms(pattern: Pattern) -> int | None:
    """The time limit from the first to the last event: the smallest that any part has."""
    spans = [part._windows.get(WithinType.FIRST_AND_LAST) for part in [*_all_parts(pattern), *_groups(pattern)]]
    return min((span for span in spans if span is not None), default=None)


def _check_names(pattern: Pattern) -> None:
    seen: set[str] = set()
    for part in _all_parts(pattern):
        if part.get_name() in seen:
            raise UsageError(f"two patterns are called {part.get_name()!r}; give each its own name")
        seen.add(part.get_name())


def _check_ends(pattern: Pattern) -> None:
    """Require a time limit for a not-pattern at the end: without one it is never decided."""
    if pattern._strategy is ConsumingStrategy.NOT_FOLLOW:
        limited = first_to_last_ms(pattern) or pattern._windows.get(WithinType.PREVIOUS_AND_CURRENT)
        if limited is None:
            raise UsageError(
                f"pattern {pattern.get_name()!r}: a sequence that ends with not_followed_by() can never end; add "
                f"within(...), after which the match is complete, or append a pattern"
            )
    for group in _groups(pattern):
        last = group.get_group()
        if last._strategy.is_negative:
            raise UsageError(
                f"pattern {last.get_name()!r}: a group cannot end with {last._strategy.value}(); put the not-pattern "
                f"after the group"
            )


def _check_part(part: Pattern) -> None:
    name, is_unconditional = part.get_name(), part._condition is None
    if part._strategy.is_negative and is_unconditional:
        raise UsageError(
            f"pattern {name!r}: {part._strategy.value}() without a condition excludes every event, so the pattern can "
            f"never match; add where(...)"
        )


def _check_windows(pattern: Pattern) -> None:
    whole = first_to_last_ms(pattern)
    for part in [*_all_parts(pattern), *_groups(pattern)]:
        for span in (part._windows.get(WithinType.PREVIOUS_AND_CURRENT), part.get_quantifier().window_ms):
            if whole is not None and span is not None and span > whole:
                raise UsageError(
                    f"pattern {part.get_name()!r}: its event may come {span} ms after the one before, but the whole "
                    f"match has to be complete within {whole} ms; give a smaller time"
                )
    _check_greedy(parts_of(pattern))
    for group in _groups(pattern):
        _check_greedy(parts_of(group.get_group()))


def _check_greedy(parts: list[Pattern]) -> None:
    for part, following in zip(parts, parts[1:], strict=False):
        quantifier = part.get_quantifier()
        repeats = quantifier.is_greedy and quantifier.minimum != quantifier.maximum
        if repeats and part._condition is None and part._until is None:
            raise UsageError(
                f"pattern {part.get_name()!r}: a greedy pattern without a condition accepts every event, so "
                f"{following.get_name()!r} is never reached and the match can never end; add where(...) or until(...)"
            )


def _all_parts(pattern: Pattern) -> Iterator[Pattern]:
    """The patterns in all groups, without the groups themselves."""
    for part in parts_of(pattern):
        if isinstance(part, GroupPattern):
            yield from _all_parts(part.get_group())
        else:
            yield part


def _groups(pattern: Pattern) -> Iterator[GroupPattern]:
    for part in parts_of(pattern):
        if isinstance(part, GroupPattern):
            yield part
            yield from _groups(part.get_group())
