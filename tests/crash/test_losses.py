"""Each kind of object is lost, alone and with each other kind, and everybody meets it.

What comes of it is in docs/guarantees.md, "Lost objects": the tables there are what is compared.
Rows are right, or whoever comes next is refused, or the loss is one of those that are named there.
`make test` plays each kind alone, and a sample of pairs; `make test-full` plays all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.support.effort import sample
from tests.support.losses import ACTS, LOSSES, UNSEEN, Lived, live_through, mended, play
from tests.support.places import MemoryPlace

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guarantees.md"
PLACE = MemoryPlace()
NOBODY, VERIFY, READS = "nobody", "`verify`", "who reads it, and `verify`"
EVERYBODY = "everybody"
PAIRS = list(combinations(LOSSES, 2))


@dataclass(frozen=True)
class Row:
    """What the page says of a loss."""

    notices: str
    lost: str
    repairs: str


def tables() -> list[dict[str, Row]]:
    """The two tables of the page: of one kind, and of two at once. Explanations follow a colon."""
    section = PAGE.read_text(encoding="utf-8").partition("## Lost objects")[2].partition("\n## ")[0]
    found: list[dict[str, Row]] = []
    for line in section.splitlines():
        if line.startswith("| object"):
            found.append({})
        elif line.startswith("| ") and found and not line.startswith("| ---"):
            name, *cells = (cell.strip() for cell in line.strip("| ").split(" | "))
            found[-1][name] = Row(*(cell.partition(":")[0] for cell in cells))
    return found


SINGLE, TWICE = tables()


@cache
def lived() -> Lived:
    return live_through(PLACE, scratch())


@cache
def scratch() -> Path:
    return Path(mkdtemp(prefix="losses-"))


def test_the_page_names_each_kind_of_object() -> None:
    assert list(SINGLE) == list(LOSSES)
    assert {tuple(name.split(" and ")) for name in TWICE} <= set(PAIRS)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_page_says_of_an_object_that_is_lost(loss: str) -> None:
    outcomes = {act.name: play(PLACE, lived(), (loss,), act, scratch()) for act in ACTS}
    assert {one.verdict for one in outcomes.values()} <= {"right", "refused"}
    noticed = {name for name, one in outcomes.items() if one.noticed} - {"rebuild"}
    acts = {act.name for act in ACTS} - {"append again", "rebuild"}
    said = {NOBODY: set(), VERIFY: {"verify"}, EVERYBODY: acts}
    said[READS] = {"read", "merge", "delete", "verify"}
    assert noticed == said[SINGLE[loss].notices]
    right = outcomes["read"].verdict == "right"
    whole = mended(PLACE, lived(), (loss,), scratch(), revive=False) == ""
    repairs = "nothing has to be" if right else "`rebuild`" if whole else "a backup"
    assert SINGLE[loss].repairs == repairs
    assert SINGLE[loss].lost == ("nothing" if whole and loss != UNSEEN else "its rows")


@pytest.mark.parametrize("pair", sample(PAIRS, 24, "pairs of losses"), ids=" and ".join)
def test_two_kinds_that_are_lost_together_bring_and_hide_no_row_in_silence(
    pair: tuple[str, str],
) -> None:
    for act in ACTS:
        found = play(PLACE, lived(), pair, act, scratch())
        assert found.verdict in {"right", "refused", "told"}, f"{act}: {found}"
        if found.verdict == "refused" and act.name != "verify":
            assert "/_" in found.said or "firnline rebuild" in found.said, found.said


MENDED = sorted(
    {*sample(PAIRS, 24, "rebuilds of pairs"), *(tuple(k.split(" and ")) for k in TWICE)}
)


@pytest.mark.parametrize("pair", MENDED, ids=" and ".join)
def test_what_a_rebuild_can_bring_back_where_two_are_lost(pair: tuple[str, str]) -> None:
    losing = "its rows" in {SINGLE[loss].lost for loss in pair if loss != UNSEEN}
    without = mended(PLACE, lived(), pair, scratch(), revive=False)
    with_it = mended(PLACE, lived(), pair, scratch(), revive=True)
    assert "erased rows" not in with_it
    row = TWICE.get(" and ".join(pair))
    if row is None:
        assert losing or without == with_it == ""
        return
    assert "the history of table flights is lost" in without
    assert with_it.startswith("other rows"), "deleted rows come back only if somebody says so"
    read = play(PLACE, lived(), pair, ACTS[0], scratch())
    assert (row.notices, read.verdict) == (EVERYBODY, "refused")
    assert row == Row(EVERYBODY, "what it did", "a backup")
