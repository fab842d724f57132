"""Metrics of functions, under PyFlink's module path."""

from penstock.model.metric_group import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
