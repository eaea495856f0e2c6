"""One kind of extension record: ``{"name":{...}}``, a line of a log file (docs/format.md)."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class RecordKind(Generic[T]):
    """Writes and reads the records of one kind.

    Args:
        name: the only key of such a record.
        payload: type of its value.
    """

    def __init__(self, name: str, payload: type[T]) -> None:
        fields = [("value", payload, msgspec.field(name=name))]
        self._record = msgspec.defstruct("Record", fields, frozen=True, forbid_unknown_fields=True)
        self._decode = msgspec.json.Decoder(self._record).decode
        self._start = b'{"%s"' % name.encode()

    def line(self, value: T) -> bytes:
        """Return the record of a value as a line."""
        return msgspec.json.encode(self._record(value))

    def read(self, line: bytes) -> T | None:
        """Parse a line; None for a record of another kind, or in the form of a later version."""
        if not line.startswith(self._start):
            return None
        try:
            value: T = self._decode(line).value  # type: ignore[attr-defined] # made above
        except msgspec.MsgspecError:
            return None
        return value
