"""`OutputTag`: the name and the type of a side output."""

from typing import Any, ClassVar

from penstock.errors import ArgumentError, ArgumentValueError
from penstock.model.types import TypeInformation, Types, record_type


class TagUse:
    """Whether this process has ever had a tag. Without one nobody looks for tags in what functions emit."""

    exists: ClassVar[bool] = False


class OutputTag:
    """The name of a side output and the type of its records.

    A function yields `tag, value`; `stream.get_side_output(tag)` is the stream of those values. Two tags with the same
    id are equal.
    """

    def __init__(self, tag_id: str, type_info: Any = None) -> None:
        """A tag.

        Args:
            tag_id: The name; not empty.
            type_info: The type of the records in the forms that `output_type=` takes, or a list of types for rows.
        """
        if not tag_id:
            raise ArgumentValueError("OutputTag tag_id cannot be None or empty string; write OutputTag('late')")
        if not isinstance(tag_id, str):
            raise ArgumentError(f"the tag_id of an OutputTag is text, not {tag_id!r}; write OutputTag('late')")
        self.tag_id = tag_id
        self.type_info: TypeInformation = Types.ROW(type_info) if isinstance(type_info, list) else _type(type_info)
        TagUse.exists = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        TagUse.exists = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info.text})"


def _type(type_info: object) -> TypeInformation:
    if isinstance(type_info, (bool, int, float, type, dict, tuple)):
        raise ArgumentError(
            f"OutputTag type_info must be None, list or TypeInformation, or a type that output_type= takes, not "
            f"{type_info!r}"
        )
    return record_type(type_info)
