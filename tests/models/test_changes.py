"""The feed of changes: the rows of then and the changes since are the rows of now."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import firnline
from firnline.read.changes import Changes
from firnline.read.difference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tests.support.effort import examples
from tests.support.visible import STEPS, Played, play_one, tally
from tests.support.world import make_world

Rows = Counter[tuple[tuple[str, Any], ...]]
COMES, GOES = {INSERT, UPDATE_AFTER}, {DELETE, UPDATE_BEFORE}


def apply(state: Rows, found: Changes) -> Rows:
    """The rows after the changes; no row goes that was not there."""
    after = Counter(state)
    for row in found:
        change = row.pop("_operation")
        del row["_sequence"], row["_reason"]
        (key,) = tally([row])
        after[key] += 1 if change in COMES else -1
    assert all(count >= 0 for count in after.values()), "a row goes that was not there"
    return +after


@pytest.mark.parametrize(
    "declared",
    [{}, {"primary_key": ["id"]}, {"primary_key": ["id"], "version": "v"}],
    ids=["rows", "key", "version"],
)
@examples(4, 300)
@given(
    steps=st.lists(STEPS, min_size=2, max_size=9),
    polls=st.lists(st.booleans(), min_size=9, max_size=9),
)
def test_the_rows_of_then_and_the_changes_since_are_the_rows_of_now(
    declared: dict[str, Any], steps: list[tuple[Any, ...]], polls: list[bool]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        merge = {"min_inputs": 2, "kernel_threads": 1}
        world = make_world(partition_by=["day"], sort_by=["id"], merge=merge, **declared)
        played = Played(world, Path(folder))
        played.append(range(0, 12, 2), 1, extra=True)
        begin = firnline.changes(world.table, since=None)
        state, position = apply(Counter(), begin), begin.position
        first, since = Counter(state), position
        for step, poll in zip(steps, polls, strict=False):
            play_one(played, step)
            if poll:
                found = firnline.changes(world.table, since=position)
                state, position = apply(state, found), found.position
                assert state == tally(played.visible())
        last = firnline.changes(world.table, since=position)
        assert apply(state, last) == tally(played.visible())
        at_once = firnline.changes(world.table, since=since)
        assert apply(first, at_once) == tally(played.visible())
        again = firnline.changes(world.table, since=since, until=position)
        assert apply(first, again) == state
        assert at_once.position == last.position or at_once.seq == last.seq
