"""The sources of a resumed program: Spark knows them by their order alone."""

import pytest

from penstock.errors import UsageError
from penstock.jobmanager.recovery import require_same_sources


def test_sources_in_another_order_are_refused() -> None:
    with pytest.raises(UsageError, match="in this order"):
        require_same_sources(["orders", "refunds"], ["refunds", "orders"])
    with pytest.raises(UsageError, match="refunds"):
        require_same_sources(["orders", "refunds"], ["orders", "returns"])


def test_the_same_sources_and_a_single_renamed_one_are_fine() -> None:
    require_same_sources(["orders", "refunds"], ["orders", "refunds"])
    require_same_sources(["orders"], ["sales"])
    require_same_sources([], ["orders", "refunds"])
