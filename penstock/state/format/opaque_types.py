"""Types in which pickles are plain bytes, for moving rows without loading pickles."""

import msgspec

from penstock.model.snapshot import StateTableInfo
from penstock.model.type_information import TypeInformation, list_of, map_of, parse_type, row_of, scalar, tuple_of


def opaque(type_info: TypeInformation) -> TypeInformation:
    """The type with pickles as plain bytes."""
    if not type_info.uses_pickle:
        return type_info
    children = [opaque(child) for child in type_info.children]
    if type_info.kind == "pickle":
        return scalar("BINARY")
    if type_info.names is not None:
        return row_of(type_info.names, children)
    makers = {"TUPLE": lambda: tuple_of(children), "LIST": lambda: list_of(children[0])}
    return makers.get(type_info.name, lambda: map_of(children[0], children[1]))()


def opaque_info(info: StateTableInfo) -> StateTableInfo:
    """The same columns, with pickles as plain bytes."""
    return msgspec.structs.replace(info, value_type=opaque(parse_type(info.value_type)).text)
