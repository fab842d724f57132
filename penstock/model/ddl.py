"""Parses and writes Spark's DDL text of types: "customer string, amount decimal(10,2)" or "map<string,bigint>"."""

import re

import pyarrow as pa

from penstock.errors import UsageError
from penstock.model import type_information as ti
from penstock.model.type_information import MAX_TYPE_DEPTH, TypeInformation

_NAMES = {
    "boolean": "BOOLEAN",
    "tinyint": "BYTE",
    "byte": "BYTE",
    "smallint": "SHORT",
    "short": "SHORT",
    "int": "INT",
    "integer": "INT",
    "bigint": "LONG",
    "long": "LONG",
    "float": "FLOAT",
    "real": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "varchar": "STRING",
    "char": "STRING",
    "character": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp_ltz": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "interval": "DURATION",
}
_DECIMALS = ("decimal", "dec", "numeric")
_INTERVAL_UNITS = ("day", "hour", "minute", "second")
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^'\\]|\\.)*)'|([^\s`'<>(),:]+)|([<>(),:]))")


def parse_ddl(text: str) -> TypeInformation:
    """The type that a Spark DDL text describes: a single type, or a row if the text is a list of fields.

    >>> parse_ddl("bigint").text, parse_ddl("customer string, amount double").text
    ('LONG', 'ROW<"customer" STRING, "amount" DOUBLE>')
    """
    tokens = _tokens(text)
    alone = _DdlParser(text, tokens)
    try:
        found = alone.type(0)
        alone.end()
        return found
    except UsageError as error:
        as_type = error
    parser = _DdlParser(text, tokens)
    try:
        found = parser.fields(0, closing=None)
    except UsageError as error:
        # A single word, or text that starts like a type, was meant as a type: that error says more.
        meant_type = len(tokens) < 2 or tokens[1][1] in ("<", "(") or tokens[0] == ("word", "interval")
        raise (as_type if meant_type else error) from None
    return found


def to_ddl(type_info: TypeInformation) -> str:
    """Spark's DDL text of the Arrow type that stores `type_info`. Untyped and pickled values are binary.

    >>> to_ddl(parse_ddl("a string, b array<int>"))
    'struct<`a`:string,`b`:array<int>>'
    """
    return arrow_to_ddl(type_info.arrow)


def arrow_to_ddl(arrow: pa.DataType) -> str:
    """Spark's DDL text of an Arrow type that can be a `TypeInformation.arrow`."""
    if pa.types.is_list(arrow):
        return f"array<{arrow_to_ddl(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{arrow_to_ddl(arrow.key_type)},{arrow_to_ddl(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        return f"struct<{','.join(f'{quote_name(field.name)}:{arrow_to_ddl(field.type)}' for field in arrow)}>"
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _ARROW_DDL[arrow]


def quote_name(name: str) -> str:
    """A column name in backticks, safe in DDL and SQL."""
    return "`" + name.replace("`", "``") + "`"


def _tokens(text: str) -> list[tuple[str, str]]:
    """(kind, token) pairs; kind is "name" for quoted names, "text" for string literals, "word" or "sign"."""
    tokens: list[tuple[str, str]] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise UsageError(f"cannot read the type {text[:200]!r}: unexpected character at {position}")
        name, literal, word, sign = match.groups()
        if name is not None:
            tokens.append(("name", name.replace("``", "`")))
        elif literal is not None:
            tokens.append(("text", literal))
        else:
            tokens.append(("word", word) if word is not None else ("sign", sign))
        position = match.end()
    return tokens


class _DdlParser:
    def __init__(self, text: str, tokens: list[tuple[str, str]]) -> None:
        self.text = text
        self.tokens = tokens
        self.position = 0

    def type(self, depth: int) -> TypeInformation:
        if depth > MAX_TYPE_DEPTH:
            raise self.error(f"types are nested more than {MAX_TYPE_DEPTH} deep")
        kind, token = self.next()
        word = token.lower()
        if kind != "word":
            raise self.error(f"found {token!r}, expected a type")
        if word in _DECIMALS:
            return ti.decimal(*self.numbers(2))
        if word == "interval":
            self.interval()
        elif word in ("varchar", "char", "character", "time"):
            self.numbers(1)
        if word in _NAMES:
            return ti.scalar(_NAMES[word])
        if word == "struct":
            self.expect("<")
            return self.fields(depth + 1, closing=">")
        if word == "array":
            self.expect("<")
            element = self.type(depth + 1)
            self.expect(">")
            return ti.list_of(element)
        if word == "map":
            self.expect("<")
            key = self.type(depth + 1)
            self.expect(",")
            value = self.type(depth + 1)
            self.expect(">")
            return ti.map_of(key, value)
        raise self.error(
            f"there is no type {token!r}; use one of {', '.join(sorted(_NAMES))}, decimal, array, map or struct"
        )

    def fields(self, depth: int, *, closing: str | None) -> TypeInformation:
        """A row: `name type [NOT NULL] [COMMENT 'text']`, separated by commas, up to `closing` or the end."""
        names: list[str] = []
        children: list[TypeInformation] = []
        if closing is not None and self.peek() == closing:
            self.next()
            return ti.row_of(names, children)
        while True:
            kind, name = self.next()
            if kind not in ("word", "name"):
                raise self.error(f"found {name!r}, expected a field name")
            if self.peek() == ":":
                self.next()
            names.append(name)
            children.append(self.type(depth))
            self.field_options()
            if self.peek() == ",":
                self.next()
                continue
            if closing is None:
                self.end()
            else:
                self.expect(closing)
            return ti.row_of(names, children)

    def field_options(self) -> None:
        while (self.peek() or "").lower() in ("not", "comment"):
            if self.next()[1].lower() == "not":
                if self.next()[1].lower() != "null":
                    raise self.error("expected NOT NULL")
            elif self.next()[0] != "text":
                raise self.error("expected a quoted text after COMMENT")

    def numbers(self, limit: int) -> list[int]:
        """Up to `limit` numbers in parentheses; none if there are no parentheses."""
        found: list[int] = []
        if self.peek() != "(":
            return found
        self.next()
        while len(found) < limit:
            _, token = self.next()
            if not (token.isascii() and token.isdigit() and len(token) < 10):
                raise self.error(f"found {token!r}, expected a number")
            found.append(int(token))
            if self.peek() == ")":
                break
            self.expect(",")
        self.expect(")")
        return found

    def interval(self) -> None:
        units = [self.next()[1].lower()]
        if (self.peek() or "").lower() == "to":
            self.next()
            units.append(self.next()[1].lower())
        if any(unit not in _INTERVAL_UNITS for unit in units):
            raise self.error("only intervals of day, hour, minute and second are supported")

    def next(self) -> tuple[str, str]:
        if self.position >= len(self.tokens):
            raise self.error("the text ends too early")
        self.position += 1
        return self.tokens[self.position - 1]

    def peek(self) -> str | None:
        """The next sign or word; None at the end and for quoted names."""
        if self.position >= len(self.tokens) or self.tokens[self.position][0] in ("name", "text"):
            return None
        return self.tokens[self.position][1]

    def expect(self, wanted: str) -> None:
        kind, token = self.next()
        if (kind, token) != ("sign", wanted):
            raise self.error(f"found {token!r}, expected {wanted!r}")

    def end(self) -> None:
        if self.position < len(self.tokens):
            raise self.error(f"unexpected {self.tokens[self.position][1]!r} after the type")

    def error(self, problem: str) -> UsageError:
        return UsageError(
            f"cannot read the type {self.text[:200]!r}: {problem}; write Spark DDL such as 'name string, amount double'"
        )


_ARROW_DDL = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.duration("us"): "interval day to second",
}
