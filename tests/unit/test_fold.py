"""What folding may forget, and when."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from firnline.errors import SnapshotExpiredError
from firnline.snapshot import read_snapshot
from tests.support.histories import append, clean_up, delete_lazily, filled, merge
from tests.support.reading import visible_ids, visible_rows


def test_a_delete_hides_its_rows_from_readers_of_the_past_until_their_parts_are_cleaned_up(
    tmp_path: Path,
) -> None:
    world = filled(2, merge={"min_inputs": 2})
    delete_lazily(world, below=4)
    long = world.settings.append.ttl + world.settings.cleanup.grace + 60_000
    world.clock.advance(1)
    hidden_at = world.clock.now
    for first in (12, 18, 24):  # the first merge applies the delete, the others might forget it
        world.clock.advance(long)
        append(world, first)
        merge(world, tmp_path)
    past = read_snapshot(world.store, world.table.paths).at(hidden_at)
    assert Counter(row["id"] for row in visible_rows(world.table, past)) == Counter(range(4, 12))
    clean_up(world)
    world.clock.advance(long)
    append(world, 30)
    merge(world, tmp_path)
    now = read_snapshot(world.store, world.table.paths)
    assert now.deletes == {}
    assert min(visible_ids(world.table)) == 4
    with pytest.raises(SnapshotExpiredError):
        now.at(hidden_at)
