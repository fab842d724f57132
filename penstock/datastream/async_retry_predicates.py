"""Predicates for the retries of async I/O, under PyFlink's names."""

from penstock.model.async_functions import empty_result_predicate, exception_type_predicate, has_exception_predicate

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]
