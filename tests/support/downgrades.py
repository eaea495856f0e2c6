"""Worlds after a downgrade: as it leaves them, and folded by clients of version 1."""

from __future__ import annotations

from collections.abc import Callable

from firnline.kernel.engine import Engine
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.operation import Work
from firnline.operations.options import DowngradeOptions
from tests.support.cleanups import RUN
from tests.support.log_tables import snapshot
from tests.support.v1_client import V1Client
from tests.support.world import World


def no_engine() -> Engine:
    """For tables without delete records."""
    raise AssertionError("no row is deleted")


def downgraded(world: World, engine: Callable[[], Engine] = no_engine) -> None:
    """Downgrade until nothing is left over but the birth record and the newest transaction."""
    due = run_downgrade(Work(world.table, RUN, engine), DowngradeOptions()).waits_until
    assert due is not None
    world.clock.advance(due - world.clock.now)
    run_downgrade(Work(world.table, RUN, engine), DowngradeOptions())
    assert len([k for k in world.store.objects if "/_txn/" in k]) == 2


def folded(world: World) -> None:
    """A client of version 1 merges, and deletes the log file that shows the last number."""
    client = V1Client(world)
    client.append("d=9")
    client.append("d=9")
    client.merge("d=9")
    client.clean_up()
    assert snapshot(world).seq == 0
