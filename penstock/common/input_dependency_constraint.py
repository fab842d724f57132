"""The names of `pyflink.common.input_dependency_constraint`."""

from penstock.model.input_dependency_constraint import InputDependencyConstraint

__all__ = ["InputDependencyConstraint"]
