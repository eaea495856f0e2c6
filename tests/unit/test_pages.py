"""A page has its sentences and tables in the order in which they are read."""

from __future__ import annotations

import pytest

from firnline.cli import output
from firnline.pages import Column, Page


def page() -> Page:
    made = Page()
    columns = [Column("partition", wrap=True), Column("parts", number=True)]
    made.table(columns, [["d=1", "2"], ["d=2", "3"]], ["2 in all", "5"])
    made.line()
    made.reasons("parts", {"they are large": 1_200})
    made.conclusion("5 parts would become 2.")
    made.pairs([("deleted", "4 parts"), ("", "2 log files")])
    made.command("firnline merge flights")
    return made


def test_its_lines_name_what_each_cell_is() -> None:
    assert list(page().lines()) == [
        "partition d=1: parts 2",
        "partition d=2: parts 3",
        "2 in all: parts 5",
        "parts left alone 1,200: reason they are large",
        "5 parts would become 2.",
        "deleted: 4 parts",
        "deleted: 2 log files",
        "  firnline merge flights",
    ]


def test_its_sentence_is_the_conclusion_or_else_the_first_line() -> None:
    assert page().sentence == "5 parts would become 2"
    plain = Page()
    plain.line("Nothing to merge.")
    plain.line("That is all.")
    assert plain.sentence == "Nothing to merge"
    assert Page().sentence == "nothing"
    plain.add(page())
    assert plain.sentence == "5 parts would become 2"


def test_a_page_of_values_has_its_sentence_beside_them() -> None:
    made = Page()
    made.in_short("deleted: 4 parts (1.0 MiB)")
    made.pairs([("deleted", "4 parts"), ("bytes", "1.0 MiB")])
    assert made.sentence == "deleted: 4 parts (1.0 MiB)"
    assert list(made.lines()) == ["deleted: 4 parts", "bytes: 1.0 MiB"]


def test_of_a_long_table_lines_have_the_first_rows_and_their_number() -> None:
    made = Page()
    made.table([Column("key")], ([str(n)] for n in range(53)))
    lines = list(made.lines())
    assert (len(lines), lines[-1]) == (51, "and 3 rows more")


def test_nothing_left_alone_is_no_table() -> None:
    made = Page()
    made.reasons("parts", {})
    assert made.blocks == []


def test_the_command_line_draws_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    output.draw(page())
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in words if line and set(line[0]) != {"─"}] == [
        ["partition", "parts"],
        ["d=1", "2"],
        ["d=2", "3"],
        ["2", "in", "all", "5"],
        ["parts", "left", "alone", "reason"],
        ["1,200", "they", "are", "large"],
        ["5", "parts", "would", "become", "2."],
        ["deleted", "4", "parts"],
        ["2", "log", "files"],
        ["firnline", "merge", "flights"],
    ]
