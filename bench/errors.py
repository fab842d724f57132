"""What can go wrong in a benchmark.

BenchError
├── BenchUsageError
├── BenchSetupError
└── RoundFailedError
"""


class BenchError(Exception):
    """The benchmark cannot give the figure that was asked for."""


class BenchUsageError(BenchError):
    """The command line asks for something that does not exist or does not fit together."""


class BenchSetupError(BenchError):
    """An engine's virtual environment could not be made."""


class RoundFailedError(BenchError):
    """An engine's process failed, was stopped at the time limit before it was steady, or wrote no figures."""
