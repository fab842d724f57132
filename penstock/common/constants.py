"""The names of `pyflink.common.constants`."""

MAX_LONG_VALUE = 2**63 - 1
"""The greatest integer of 64 bits."""
MIN_LONG_VALUE = -(2**63)
"""The least integer of 64 bits."""
DEFAULT_OUTPUT_TAG = ""
"""The id of a stream's main output."""

__all__ = ["DEFAULT_OUTPUT_TAG", "MAX_LONG_VALUE", "MIN_LONG_VALUE"]
