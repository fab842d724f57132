"""Patterns of events in streams, with the API and the semantics of Flink's CEP library."""

from penstock.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from penstock.cep.cep import CEP
from penstock.cep.condition import IterativeCondition, SimpleCondition
from penstock.cep.pattern import GroupPattern, Pattern
from penstock.cep.pattern_process_function import (
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from penstock.cep.pattern_stream import PatternStream
from penstock.cep.quantifier import ConsumingStrategy, Quantifier, WithinType

__all__ = [
    "AfterMatchSkipStrategy",
    "CEP",
    "ConsumingStrategy",
    "GroupPattern",
    "IterativeCondition",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "Quantifier",
    "SimpleCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
]
