import pickle

import pytest

from penstock.common import ByteArraySchema, SimpleStringSchema, Types
from penstock.common.serialization import RowFieldExtractorSchema
from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.row import Row


def test_text_is_encoded_in_its_charset_and_read_back() -> None:
    schema = pickle.loads(pickle.dumps(SimpleStringSchema("latin-1")))
    assert schema.serialize("café") == b"caf\xe9" and schema.deserialize(b"caf\xe9") == "café"
    assert schema.get_produced_type() == Types.STRING()
    assert SimpleStringSchema().serialize("é") == "é".encode()


def test_a_charset_that_does_not_exist_and_a_value_that_is_no_text_are_refused() -> None:
    with pytest.raises(UsageError, match="no charset 'latin-99'"):
        SimpleStringSchema("latin-99")
    with pytest.raises(UnsupportedValueError, match="map the records to str"):
        SimpleStringSchema().serialize(5)


def test_bytes_pass_as_they_are() -> None:
    schema = ByteArraySchema()
    assert schema.serialize(bytearray(b"\x00a")) == b"\x00a" == schema.deserialize(b"\x00a")
    assert schema.get_produced_type().name == "BINARY"
    with pytest.raises(UnsupportedValueError, match="map the records to bytes"):
        schema.serialize("a")


def test_one_field_of_a_row_is_extracted() -> None:
    schema = RowFieldExtractorSchema(1)
    assert schema.get_field_index() == 1 and schema == RowFieldExtractorSchema(1) != RowFieldExtractorSchema(0)
    assert hash(schema) == hash(RowFieldExtractorSchema(1))
    assert schema.serialize(Row(key=b"k", value=b"v")) == b"v"
    assert schema.serialize(None) == b"" == schema.serialize((b"k", None))
    with pytest.raises(UnsupportedValueError, match="field 1 of a row is 5, not bytes"):
        schema.serialize((b"k", 5))
    with pytest.raises(ValueError, match="Field index must be non-negative"):
        RowFieldExtractorSchema(-1)
