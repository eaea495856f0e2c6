"""Tables for people, on terminals of any width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.cli import output
from firnline.cli.failures import printable
from firnline.cli.output import fitting, number, percent, spark, when
from firnline.pages import Column

COLUMNS = [Column("a"), Column("b", dispensable=1), Column("c", dispensable=2), Column("d")]
ROWS = [["1234567890"] * 4]


def test_columns_go_in_their_order_when_a_terminal_is_narrow() -> None:
    assert fitting(COLUMNS, ROWS, 46) == [0, 1, 2, 3]
    assert fitting(COLUMNS, ROWS, 45) == [0, 1, 3]
    assert fitting(COLUMNS, ROWS, 34) == [0, 1, 3]
    assert fitting(COLUMNS, ROWS, 33) == [0, 3]
    assert fitting(COLUMNS, ROWS, 5) == [0, 3]


def test_wide_characters_count_twice() -> None:
    assert fitting(COLUMNS, [["氷河", "", "", "氷河"]], 13) == [0, 1, 3]
    assert fitting(COLUMNS, [["氷河", "", "", "氷河"]], 12) == [0, 3]


WRAPPED = [Column("seq"), Column("what", wrap=True), Column("bytes", dispensable=1)]
SENTENCES = [["1", "merge of a partition and of three more", "4.2 KiB → 1.1 KiB"]]


def test_a_column_that_wraps_makes_others_go_only_where_it_could_not_be_read() -> None:
    assert fitting(WRAPPED, SENTENCES, 48) == [0, 1, 2]
    assert fitting(WRAPPED, SENTENCES, 47) == [0, 1]


def test_a_column_that_wraps_is_never_narrower_than_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_PIPE_WIDTH", 40)
    output.table([*WRAPPED[:2], Column("bytes")], SENTENCES)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "1    merge of a        4.2 KiB → 1.1 KiB",
        "     partition and of",
        "     three more",
    ]


def test_figures_are_written_as_people_read_them() -> None:
    assert (number(1234567), number(0), number(None)) == ("1,234,567", "0", "?")
    assert (percent(1, 3), percent(3, 3), percent(0, 0)) == ("33 %", "100 %", "-")
    assert when(1_357_369_200_000) == "2013-01-05 07:00:00Z"
    assert when(10**18) == str(10**18)


def test_a_share_is_only_whole_when_nothing_is_missing() -> None:
    assert percent(999, 1000) == "99 %"


@given(st.lists(st.integers(0, 10**9), max_size=20))
def test_a_bar_is_as_high_as_its_count(counts: list[int]) -> None:
    bars = spark(counts)
    assert len(bars) == len(counts)
    for count, bar in zip(counts, bars, strict=True):
        assert (bar == "·") == (count == 0)
        for other, its in zip(counts, bars, strict=True):
            if 0 < count <= other:
                assert "▁▂▃▄▅▆▇█".index(bar) <= "▁▂▃▄▅▆▇█".index(its)


@given(st.text())
def test_what_is_printed_cannot_drive_a_terminal(text: str) -> None:
    assert printable(text).isprintable()


def test_sentences_are_wrapped_in_a_pipe_too_and_keys_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = "t/_data/" + "k" * 100
    columns = [Column("object", wrap=True), Column("finding", wrap=True, prose=True)]
    output.table(columns, [[key, "is not there, and the log states it; " * 5]])
    _, _, first, *more = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{key}  is not there")
    assert len(more) > 3
    assert all(len(line) <= len(key) + 42 for line in [first, *more])
    output.table([Column("seq"), columns[1]], [["1", "word " * 60]])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


NARROW = [
    Column("what", wrap=True),
    Column("requests", number=True),
    Column("bytes", number=True),
]
FIGURES = [["merge of a partition", "1,234,567", "17,342"], ["clean-up", "5,000", "?"]]


@pytest.mark.parametrize("width", [40, 39, 25])
def test_a_figure_is_never_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setattr(output, "_PIPE_WIDTH", width)
    output.table(NARROW, FIGURES, ["all", "1,239,567", "17,342"])
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for figure in ("1,234,567", "17,342", "5,000", "1,239,567"):
        assert figure in shown


def test_where_the_columns_do_not_fit_each_row_has_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_PIPE_WIDTH", 30)
    output.table(NARROW, FIGURES)
    assert capsys.readouterr().out.splitlines() == [
        "what      merge of a partition",
        "requests  1,234,567",
        "bytes     17,342",
        "",
        "what      clean-up",
        "requests  5,000",
        "bytes     ?",
    ]


def test_names_of_columns_cannot_drive_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.table([Column("a\x1b[31mb\nc"), Column("d")], [["1\n2", ["3\x1b", "4"]]])
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["a\\x1b[31mb\\nc", "d"]
    assert [row.split() for row in rows] == [["1\\n2", "3\\x1b"], ["4"]]
