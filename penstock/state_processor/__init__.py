"""State as data on Spark: read, make and change savepoints as DataFrames."""

from penstock.state_processor.declared import StateTypes
from penstock.state_processor.savepoint import Savepoint

__all__ = ["Savepoint", "StateTypes"]
