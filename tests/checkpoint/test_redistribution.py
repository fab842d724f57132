"""Who gets which operator state: the arithmetic of rows C2 to C4, for any numbers."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint.restore.redistribution import split_evenly
from penstock.model.snapshot import OperatorStateInfo, OperatorStateShare, StateFile


def part(name: str, count: int) -> OperatorStateShare:
    file = StateFile(name, 1, "0" * 64)
    return OperatorStateShare(OperatorStateInfo("uid", "kept", "split", "LONG", None, count), file, 0, count)


def elements(shares: list[OperatorStateShare]) -> list[tuple[str, int]]:
    return [(share.file.path, n) for share in shares for n in range(share.start, share.stop)]


@given(st.lists(st.integers(0, 9), max_size=7), st.integers(1, 9), st.data())
def test_c2_slices_are_contiguous_even_and_whole(counts: list[int], parallelism: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, parallelism - 1))
    parts = [part(str(index), count) for index, count in enumerate(counts)]
    shares, following = split_evenly(parts, parallelism, start)
    in_order = [elements(shares[(start + n) % parallelism]) for n in range(parallelism)]
    assert [e for share in in_order for e in share] == elements(parts)  # nothing lost, doubled or out of order
    sizes = [len(share) for share in in_order]
    base, remainder = divmod(sum(counts), parallelism)
    assert sizes == [base + 1] * remainder + [base] * (parallelism - remainder)
    assert following == (start + remainder) % parallelism
    assert all(share.start < share.stop for mine in shares for share in mine)


def test_c2_the_example_of_the_feature_table() -> None:
    parts = [part("a", 2), part("b", 2), part("c", 1)]
    two, start = split_evenly(parts, 2, 0)
    assert [elements(share) for share in two] == [[("a", 0), ("a", 1), ("b", 0)], [("b", 1), ("c", 0)]]
    assert start == 1
    six, start = split_evenly(parts, 6, 0)
    assert [len(elements(share)) for share in six] == [1, 1, 1, 1, 1, 0] and start == 5
