"""State as data on Spark: read, make and change savepoints as DataFrames."""

from penstock.state_processor.savepoint import Savepoint
from penstock.state_processor.state_types import StateTypes

__all__ = ["Savepoint", "StateTypes"]
