"""A table with a mirror is not handed to clients that know nothing of its readers."""

from __future__ import annotations

import pytest

from firnline.errors import UsageError
from firnline.operations.downgrade.plan import plan_downgrade
from tests.support.log_tables import put_append, snapshot
from tests.support.mirrors import mirrored_world


def test_a_mirror_has_to_be_given_up_first() -> None:
    world = mirrored_world()
    put_append(world)
    with pytest.raises(UsageError, match="has a mirror"):
        plan_downgrade(snapshot(world), world.settings, world.clock.now)
