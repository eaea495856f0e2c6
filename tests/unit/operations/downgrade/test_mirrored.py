"""A table with a mirror is not handed to clients that know nothing of its readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import UsageError
from firnline.operations.downgrade.plan import plan_downgrade
from tests.support.in_catalog import catalog_world
from tests.support.log_tables import put_append, snapshot
from tests.support.mirrors import mirrored_world


def test_a_mirror_has_to_be_given_up_first() -> None:
    world = mirrored_world()
    put_append(world)
    with pytest.raises(UsageError, match="has a mirror") as caught:
        plan_downgrade(snapshot(world), world.settings, world.clock.now)
    # A file without the key ends nothing, and the advice would lead round in a circle.
    assert "write mirror without delta into the settings file ([] if none" in str(caught.value)


def test_a_mirror_in_a_catalog_ends_in_the_catalog_first(tmp_path: Path) -> None:
    world = catalog_world(tmp_path)
    put_append(world)
    with pytest.raises(UsageError, match="has a mirror") as caught:
        plan_downgrade(snapshot(world), world.settings, world.clock.now)
    assert "drop the table in the Iceberg catalog without its files" in str(caught.value.next_step)
