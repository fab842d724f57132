"""The columns of records, for files and tables that need typed ones."""

from penstock.errors import UsageError
from penstock.model.type_information import TypeInformation, row_of


def columns_of(record_type: TypeInformation, what: str) -> TypeInformation:
    """The type as a row of columns; a tuple's columns are f0, f1, …, and a plain value's is `value`.

    `what` names the file or table for the UsageError that is raised if the type is not declared or has no field.
    """
    if record_type.kind != "arrow":
        raise UsageError(
            f"{what} needs typed columns, but the records that reach the sink have no declared type; "
            f"declare it on the operator before the sink, for example output_type='customer string, total double'"
        )
    if record_type.name in ("ROW", "TUPLE") and not record_type.children:
        raise UsageError(f"{what} needs at least one column; the record type {record_type.text} has none")
    if record_type.name == "TUPLE":
        return row_of([f"f{index}" for index in range(len(record_type.children))], record_type.children)
    return record_type
