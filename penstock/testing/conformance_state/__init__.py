"""The conformance suite of keyed state backends. A test calls each of `CHECKS` with a function that opens one.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(lambda place: MySpec().open(replace(place, folder=tmp_path)))

The backends are opened with `incremental=False`, so they seal rows. The checks do not close them.
"""

from penstock.testing.conformance_state.checks import CHECKS
from penstock.testing.conformance_state.tools import NewBackend

__all__ = ["CHECKS", "NewBackend"]
