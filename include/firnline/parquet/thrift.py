"""Thrift's compact protocol, as far as Parquet footers need it: any structure, unknown fields too.

A structure that is decoded and encoded again is the same bytes, whatever it holds, so a footer can
be changed in one place without knowledge of the rest. The source of the encoding is Apache Thrift's
specification ``thrift-compact-protocol.md``.
"""

from __future__ import annotations

from collections.abc import Callable
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
        return _Reader(data).struct(0)
    except IndexError:
        raise ThriftError("the structure ends early") from None


def encode(value: Struct) -> bytes:
    """Return the bytes of a structure."""
    out = bytearray()
    _write_struct(out, value)
    return bytes(out)


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0

    def struct(self, depth: int) -> Struct:
        struct, number = Struct(), 0
        while head := self._byte():
            kind, delta = head & 15, head >> 4
            number = number + delta if delta else self._zigzag()
            struct.fields[number] = (kind, self._value(kind, depth))
        return struct

    def _value(self, kind: int, depth: int) -> Value:
        if depth > _MOST_DEPTH:
            raise ThriftError("the structure is nested too deeply")
        if kind in (TRUE, FALSE):
            return kind
        if kind == _BYTE:
            return self._byte()
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind == DOUBLE:
            return self._take(8)
        if kind == BINARY:
            return self._take(self._varint())
        if kind in (LIST, SET):
            return self._items(depth)
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise ThriftError(f"type {kind} is not known")

    def _items(self, depth: int) -> Items:
        head = self._byte()
        kind, count = head & 15, head >> 4
        count = self._varint() if count == 15 else count
        # A boolean in a list is a byte of its own.
        read: Callable[[], Value] = (
            self._byte if kind in (TRUE, FALSE) else lambda: self._value(kind, depth + 1)
        )
        return Items(kind, [read() for _ in range(count)])

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise IndexError
        return self.data[self.at - count : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _write_struct(out: bytearray, value: Struct) -> None:
    last = 0
    for number, (kind, each) in sorted(value.fields.items()):
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, _to_zigzag(number))
        _write_value(out, kind, each)
        last = number
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Value) -> None:
    if kind in (TRUE, FALSE):
        return
    if isinstance(value, Struct):
        _write_struct(out, value)
    elif isinstance(value, Items):
        _write_items(out, value)
    elif isinstance(value, bytes):
        if kind == BINARY:
            _write_varint(out, len(value))
        out += value
    elif kind == _BYTE:
        out.append(value)
    else:
        _write_varint(out, _to_zigzag(value))


def _write_items(out: bytearray, items: Items) -> None:
    count = len(items.values)
    if count < 15:
        out.append(count << 4 | items.kind)
    else:
        out.append(15 << 4 | items.kind)
        _write_varint(out, count)
    for each in items.values:
        if items.kind in (TRUE, FALSE) and isinstance(each, int):
            out.append(each)
        else:
            _write_value(out, items.kind, each)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _to_zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1
