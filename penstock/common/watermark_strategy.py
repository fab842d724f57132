"""The names of `pyflink.common.watermark_strategy`."""

from penstock.model.watermark import TimestampAssigner, WatermarkStrategy

__all__ = ["TimestampAssigner", "WatermarkStrategy"]
