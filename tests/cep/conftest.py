"""Programs without Spark, as in the tests of `penstock.datastream`."""

from tests.datastream.conftest import env, spark

__all__ = ["env", "spark"]
