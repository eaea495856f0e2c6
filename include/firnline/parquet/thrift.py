"""Thrift's compact protocol, as far as Parquet footers need it: any structure, unknown fields too.

A structure that is decoded and encoded again is the same bytes, whatever it holds, so a footer can
be changed in one place without knowledge of the rest. The source of the encoding is Apache Thrift's
specification ``thrift-compact-protocol.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

TRUE: Final = 1
FALSE: Final = 2
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
STRUCT: Final = 12
_BYTE: Final = 3
_MOST_DEPTH = 64
"""Maximum nesting; Parquet's own structures nest six deep."""


class ThriftError(ValueError):
    """The bytes are not a structure in the compact protocol."""


@dataclass(slots=True)
class Items:
    """A list or set."""

    kind: int
    """Type of its elements."""
    values: list[Value]


@dataclass(slots=True)
class Struct:
    """A structure: its fields by id, in their order."""

    fields: dict[int, tuple[int, Value]] = field(default_factory=dict)
    """Type and value. Integers are numbers; a double is its eight bytes, a boolean its type."""

    def get(self, number: int) -> Value | None:
        """Return the value of a field; None without it."""
        field = self.fields.get(number)
        return None if field is None else field[1]

    def integer(self, number: int) -> int | None:
        """Return an integer field; None without it. Raises ThriftError if it is something else."""
        value = self.get(number)
        if value is not None and not isinstance(value, int):
            raise ThriftError(f"field {number} is not a number")
        return value

    def struct(self, number: int) -> Struct:
        """Return a structure. Raises ThriftError if it is missing or something else."""
        value = self.get(number)
        if not isinstance(value, Struct):
            raise ThriftError(f"field {number} is not a structure")
        return value

    def structs(self, number: int) -> list[Struct]:
        """Return a list of structures. Raises ThriftError if it is missing or something else."""
        value = self.get(number)
        if not isinstance(value, Items):
            raise ThriftError(f"field {number} is not a list")
        structs = [each for each in value.values if isinstance(each, Struct)]
        if len(structs) != len(value.values):
            raise ThriftError(f"field {number} is not a list of structures")
        return structs

    def put(self, number: int, kind: int, value: Value) -> None:
        """Set a field."""
        self.fields[number] = (kind, value)

    def drop(self, *numbers: int) -> None:
        """Remove fields, if they are there."""
        for number in numbers:
            self.fields.pop(number, None)


Value = int | bytes | Items | Struct


def decode(data: bytes) -> Struct:
    """Return the structure at the start of the bytes. Raises ThriftError."""
    try:
        return _struct(data, 0, 0)[0]
    except IndexError:
        raise ThriftError("the structure ends early") from None


def encode(value: Struct) -> bytes:
    """Return the bytes of a structure."""
    out = bytearray()
    _write_struct(out, 0, value)
    return bytes(out)


# Plain functions, since footers have thousands of values: each takes the bytes and a position in
# them, and returns a value and the position behind it.


def _struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > _MOST_DEPTH:
        raise ThriftError("the structure is nested too deeply")
    fields: dict[int, tuple[int, Value]] = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > 15:
            number += head >> 4
        else:
            number, at = _integer(data, at, depth)
        if TRUE <= kind <= FALSE:
            fields[number] = (kind, kind)
            continue
        value, at = _READ[kind](data, at, depth)
        fields[number] = (kind, value)
    return Struct(fields), at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 128:
        return byte, at
    value, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _integer(data: bytes, at: int, _depth: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _byte(data: bytes, at: int, _depth: int) -> tuple[int, int]:
    return data[at], at + 1


def _taken(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    end = at + count
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _double(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
    return _taken(data, at, 8)


def _binary(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
    count, at = _varint(data, at)
    return _taken(data, at, count)


def _items(data: bytes, at: int, depth: int) -> tuple[Items, int]:
    if depth >= _MOST_DEPTH:
        raise ThriftError("the structure is nested too deeply")
    head = data[at]
    at += 1
    kind, count = head & 15, head >> 4
    if count == 15:
        count, at = _varint(data, at)
    # A boolean in a list is a byte of its own.
    read = _byte if kind in (TRUE, FALSE) else _READ[kind]
    values: list[Value] = []
    for _ in range(count):
        value, at = read(data, at, depth + 1)
        values.append(value)
    return Items(kind, values), at


def _inner(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    return _struct(data, at, depth + 1)


def _unknown(data: bytes, at: int, _depth: int) -> tuple[Value, int]:
    raise ThriftError(f"byte {data[at - 1]} before position {at} states no type that is known")


_Read = Callable[[bytes, int, int], tuple[Value, int]]
_KNOWN: Final[Mapping[int, _Read]] = {
    _BYTE: _byte,
    I16: _integer,
    I32: _integer,
    I64: _integer,
    DOUBLE: _double,
    BINARY: _binary,
    LIST: _items,
    SET: _items,
    STRUCT: _inner,
}
_READ: Final = tuple(_KNOWN.get(kind, _unknown) for kind in range(16))


# Their counterparts take the type that a field or list states, too.


def _write_struct(out: bytearray, _kind: int, value: Value) -> None:
    assert isinstance(value, Struct)
    last = 0
    for number, (kind, each) in sorted(value.fields.items()):
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, kind, number)
        if kind > FALSE:
            _WRITE[kind](out, kind, each)
        last = number
    out.append(0)


def _write_integer(out: bytearray, _kind: int, value: Value) -> None:
    assert isinstance(value, int)
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _write_byte(out: bytearray, _kind: int, value: Value) -> None:
    assert isinstance(value, int)
    out.append(value)


def _write_bytes(out: bytearray, kind: int, value: Value) -> None:
    assert isinstance(value, bytes)
    if kind == BINARY:
        _write_varint(out, len(value))
    out += value


def _write_items(out: bytearray, _kind: int, value: Value) -> None:
    assert isinstance(value, Items)
    kind, count = value.kind, len(value.values)
    if count < 15:
        out.append(count << 4 | kind)
    else:
        out.append(15 << 4 | kind)
        _write_varint(out, count)
    write = _write_byte if kind in (TRUE, FALSE) else _WRITE[kind]
    for each in value.values:
        write(out, kind, each)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


_WRITE: Final[Mapping[int, Callable[[bytearray, int, Value], None]]] = {
    _BYTE: _write_byte,
    I16: _write_integer,
    I32: _write_integer,
    I64: _write_integer,
    DOUBLE: _write_bytes,
    BINARY: _write_bytes,
    LIST: _write_items,
    SET: _write_items,
    STRUCT: _write_struct,
}
