"""Records of the times at which a table had rows twice."""

from __future__ import annotations

from firnline.log import taken_back

LINE = taken_back.record(10, 20)


def test_the_record_is_a_line_of_its_own_kind() -> None:
    assert LINE == b'{"taken-back":{"since":10,"to":20}}'


def test_a_time_is_in_the_span_up_to_its_end() -> None:
    times = {t: taken_back.span_at([b'{"other":1}', LINE], t) is not None for t in (9, 10, 19, 20)}
    assert times == {9: False, 10: True, 19: True, 20: False}


def test_records_of_other_kinds_and_of_later_versions_say_nothing() -> None:
    later = b'{"taken-back":{"since":1,"to":2},"more":3}'
    assert taken_back.span_at([b'{"sum":{"crc32":1}}', later], 1) is None
    assert not taken_back.is_over(later, 100)


def test_it_is_over_once_no_reader_can_ask_for_its_times() -> None:
    assert [taken_back.is_over(LINE, purged) for purged in (19, 20)] == [False, True]
