"""What can go wrong in a benchmark.

BenchError
├── BenchUsageError
├── BenchSetupError
├── NotFinishedError
└── RoundFailedError
"""


class BenchError(Exception):
    """The benchmark cannot give the figure that was asked for."""


class BenchUsageError(BenchError):
    """The command line asks for something that does not exist or does not fit together."""


class BenchSetupError(BenchError):
    """An engine's virtual environment could not be made."""


class NotFinishedError(BenchError):
    """An engine was stopped at the time limit, before the steady part of its input."""


class RoundFailedError(BenchError):
    """An engine's process failed, or wrote no figures."""
