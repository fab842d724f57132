"""What every keyed state backend must do. A test runs each of `CHECKS` with a maker of fresh, empty backends.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(lambda key_codec, max_parallelism, key_groups: MyBackend("op", key_codec, max_parallelism, key_groups))

A backend's `seal` gives tables of rows, or files of its own; the checks ask for one that gives rows.
"""

from penstock.testing.conformance_state.checks import CHECKS
from penstock.testing.conformance_state.tools import NewBackend

__all__ = ["CHECKS", "NewBackend"]
