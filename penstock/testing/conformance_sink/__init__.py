"""The conformance suite of sinks. A test calls each of `CHECKS` with a fresh, empty system that the sink writes to.

    class Folder(SinkSystem):
        def __init__(self, path):
            super().__init__()
            self.path = path

        def sink(self):
            return MySink(self.path)

        def rows(self):
            return [read(line) for line in ...]

        def leftovers(self):
            return [file.name for file in ...]

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(Folder(tmp_path))

Calls to the other system that go through `system.faults.call` fail one after the other in the checks of crashes and
lost replies. Without them these checks crash between the calls to the sink only.
"""

from penstock.testing.conformance_sink.sink_checks import CHECKS
from penstock.testing.conformance_sink.sink_system import RECORD_TYPE, Faults, SinkSystem

__all__ = ["CHECKS", "Faults", "RECORD_TYPE", "SinkSystem"]
