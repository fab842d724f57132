"""The names of `pyflink.common.typeinfo`."""

from penstock.model.types import TypeInformation, Types

__all__ = ["TypeInformation", "Types"]
