"""Actors that prepare a rewrite, and that commit or discard what somebody has prepared.

Only worlds of ``PREPARING`` seeds have them, so all others are what they were without.
"""

from __future__ import annotations

from typing import Any

from firnline.operations.operation import Work
from firnline.operations.options import RewriteOptions, SweepOptions, UpdateOptions
from firnline.operations.prepared.evidence import Evidence
from firnline.operations.prepared.expiry import NOTHING_HELD, Held
from firnline.operations.prepared.run import commit_prepared, discard_prepared
from firnline.operations.prepared.waiting import WaitingChange, of_run, waiting
from firnline.operations.rewrite import prepare
from firnline.operations.sweep.run import run_sweep
from firnline.operations.update.run import UPDATING
from simulation import updates
from simulation.hides import Hides
from simulation.stage import Stage
from simulation.world import GRACE, TICK, TTL, Violation

PREPARING = range(14_000, 15_000)
"""Seeds of worlds in which rewrites are prepared."""
WEIGHTS: dict[str, float] = {"prepare": 2.0, "decide": 2.0}
_KEPT = (TICK, 300 * TICK, 2_000 * TICK)
_UPDATES = 0.7
"""Share of the updates that are prepared, where somebody decides on such changes."""


def no_evidence(*_: Any) -> Evidence:
    """Replace the comparison of rows, which reads Parquet."""
    return Evidence()


def nothing_held(_table: object) -> Held:
    """Replace the listing of prepared changes where there are none."""
    return NOTHING_HELD


def nothing(*_: object) -> tuple[str, ...]:
    """Replace the discard of prepared changes where there are none."""
    return ()


def prepare_rewrite(stage: Stage, sql: str) -> None:
    """Prepare a rewrite, and mostly decide on it after a while."""
    options = RewriteOptions(
        where=f"NOT ({sql})", force=True, prepare=True, keep=stage.r.choice(_KEPT)
    )
    prepare.run_prepare(Work(stage.table, stage.run, stage.engine), options)
    _decide_own(stage)


def is_prepared(stage: Stage) -> bool:
    """Return True for most updates, where somebody decides on what is prepared."""
    return bool(stage.world.mix.weights.get("decide")) and stage.r.random() < _UPDATES


def prepare_update(stage: Stage, where: Hides, sql: str) -> None:
    """Prepare an update, and mostly decide on it after a while."""
    asked = updates.begin(stage, where, sql)
    asked.prepared = True
    stage.actor.tell(f"prepares {' and '.join(asked.assignments)} where {sql}")
    options = UpdateOptions(
        set=asked.assignments, where=sql, prepare=True, keep=stage.r.choice(_KEPT)
    )
    prepare.prepare_by(UPDATING, Work(stage.table, stage.run, stage.engine), options)
    stage.oracle.stats["update prepared"] += 1
    _decide_own(stage)


def _decide_own(stage: Stage) -> None:
    if stage.r.random() < 0.5:
        return  # for others
    stage.actor.stand_still(stage.r.choice([1, 20, 200]))
    for change in of_run(stage.table, stage.run):
        _decide(stage, change)


def decide(stage: Stage) -> None:
    """Commit or discard what somebody has prepared, even if somebody is doing so."""
    found = waiting(stage.table).prepared
    if found:
        _decide(stage, stage.r.choice(found))


def _decide(stage: Stage, change: WaitingChange) -> None:
    whole: tuple[dict[str, Any], ...] = (stage.oracle.ledger.intents, stage.oracle.updates.asked)
    for meant in whole:
        if change.run.run_id in meant:
            meant[stage.run.run_id] = meant[change.run.run_id]
    if stage.r.random() < 0.7:
        stage.actor.tell(f"commits {change.id}")
        commit_prepared(stage.table, change.id, stage.run)
    else:
        stage.actor.tell(f"discards {change.id}")
        discard_prepared(stage.table, change.id, stage.run)


def leave_nothing(stage: Stage) -> None:
    """Sweep until everything prepared has ended, marks included, and look for what is left."""
    world = stage.world
    for _ in range(6):
        world.now += 4_000 * TICK + 8 * (GRACE + TTL)
        run_sweep(Work(stage.table, stage.run), SweepOptions())
    left = [key for key in world.objects if key.startswith(world.paths.prepared_dir)]
    if left:
        raise Violation(f"{left[0]} of a prepared change is there for ever")
