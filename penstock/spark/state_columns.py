"""The columns of a user's DataFrame as the stored columns of a state."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.codec.readable import has_untyped
from penstock.errors import UsageError
from penstock.model.ddl import arrow_to_ddl
from penstock.model.type_information import TypeInformation
from penstock.model.types import resolve_type
from penstock.spark.dataframe_checks import refuse_time
from penstock.spark.state_writer import StoredColumn, to_stored
from penstock.state.format.schema_evolution import widens


def column_types(frame: DataFrame) -> dict[str, Any]:
    """Name -> Spark type."""
    return {field.name: field.dataType for field in frame.schema.fields}


def has_text(frame: DataFrame, names: Sequence[str]) -> bool:
    """Whether one of the columns is text or contains text."""
    types = column_types(frame)
    return any("string" in types[name].simpleString() for name in names if name in types)


def stored_columns(frame: DataFrame, columns: Sequence[StoredColumn], others: Sequence[Column]) -> DataFrame:
    """The frame with stored columns; `others` are kept. A column of another type is refused, not converted."""
    cast = frame.select([_fitted(frame, column) for column in columns] + list(others))
    if not any(has_untyped(column.type) for column in columns):
        return cast
    return to_stored(cast, columns, [F.col(name) for name in cast.columns[len(columns) :]])


def stamps(frame: DataFrame, name: str, *, is_list: bool) -> Column:
    """When entries expire or were used last, in whole milliseconds; null if the column is missing."""
    if name not in frame.columns:
        nothing = "transform(value, x -> cast(null as timestamp))" if is_list else "cast(null as timestamp)"
        return F.expr(nothing).alias("expires_at")
    whole = f"transform({name}, x -> date_trunc('MILLISECOND', x))" if is_list else f"date_trunc('MILLISECOND', {name})"
    return F.expr(whole).alias("expires_at")


def _fitted(frame: DataFrame, column: StoredColumn) -> Column:
    found = resolve_type(frame.schema[column.name].dataType)
    if has_untyped(column.type):
        return F.col(column.name)
    refuse_time(column.name, found)
    if found.arrow == column.type.arrow:
        return F.col(column.name)
    if widens(found, column.type) or _is_list_of_wider(found, column.type):
        return F.col(column.name).cast(arrow_to_ddl(column.type.arrow)).alias(column.name)
    raise UsageError(
        f"column {column.name!r} is {found.text}, the state stores {column.type.text}; cast it: "
        f"df.withColumn({column.name!r}, F.col({column.name!r}).cast({arrow_to_ddl(column.type.arrow)!r}))"
    )


def _is_list_of_wider(found: TypeInformation, stored: TypeInformation) -> bool:
    return found.name == stored.name == "LIST" and widens(found.children[0], stored.children[0])


def timers_of(frame: DataFrame, domain: str, domains: Sequence[str]) -> DataFrame:
    """The timers of one clock as keys and values; rows with an unknown `domain` are an error."""
    known = ", ".join(f"'{name}'" for name in domains)
    wrong = f"raise_error(concat('a timer has the domain ', coalesce(domain, 'null'), '; it is one of ', \"{known}\"))"
    checked = frame.where(F.expr(f"if(domain in ({known}), domain = '{domain}', {wrong})"))
    namespaces = ["namespace"] if "namespace" in frame.columns else []
    return checked.select("key", *namespaces, F.col("timestamp").alias("value"))
