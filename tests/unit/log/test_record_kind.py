"""Extension records: what is written is read, and what is of another kind is left alone."""

from __future__ import annotations

import msgspec
import pytest

from firnline.log.record_kind import RecordKind


class _Payload(msgspec.Struct, frozen=True):
    number: int


KIND = RecordKind("some-kind", _Payload)


def test_a_record_has_its_kind_as_its_only_key_and_is_read_back() -> None:
    line = KIND.line(_Payload(7))
    assert line == b'{"some-kind":{"number":7}}'
    assert KIND.read(line) == _Payload(7)


@pytest.mark.parametrize(
    "line",
    [
        b'{"another":{"number":7}}',
        b'{"some-kind":{"number":7},"more":1}',
        b'{"some-kind":{"number":"seven"}}',
        b'{"some-kind":{}}',
        b'{"some-kind":',
        b"",
    ],
)
def test_other_kinds_and_later_forms_are_none_of_it(line: bytes) -> None:
    assert KIND.read(line) is None
