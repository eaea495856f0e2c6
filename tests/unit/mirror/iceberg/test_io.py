"""Files that pyiceberg writes by way of the table's store."""

from __future__ import annotations

import pytest

from firnline.errors import OutcomeUnknownError
from firnline.mirror.iceberg.io import Place, StateTooOldError
from firnline.paths import Root
from tests.support.in_catalog import ROOT
from tests.support.world import Sleeping, make_world


def test_a_machine_that_slept_over_a_put_does_not_repeat_it() -> None:
    world = make_world(root=ROOT)
    store = Sleeping(world.store, clock=world.clock, what="first", ms=1_000)
    place = Place(store, Root.parse(ROOT))
    until = world.clock.now + 500
    with place.while_in_time(lambda: world.clock.now <= until):
        with pytest.raises(OutcomeUnknownError, match="it is too late to try again"):
            place.put("t/_iceberg/metadata/first", b"1")
        with pytest.raises(StateTooOldError):
            place.put("t/_iceberg/metadata/second", b"2")
    assert store.lost == ["t/_iceberg/metadata/first"]
    assert world.store.objects == {}
