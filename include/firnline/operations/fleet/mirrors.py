"""The mirrors of the fleet: which of them lack something for too long, and their publication."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firnline.commit.base import Base
from firnline.errors import FirnlineError, MirrorDamagedError
from firnline.mirror.delta.hiding import hold_of
from firnline.mirror.delta.lag import behind_since
from firnline.mirror.hold import parts_with_deletes
from firnline.mirror.iceberg import hold as iceberg
from firnline.operations.at_once import at_once
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from firnline.settings.load import TableSettings

if TYPE_CHECKING:
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.fleet.run import Member
    from firnline.operations.merge.plan import MergePlan
    from firnline.operations.mirror.run import MirrorReport

_LOG = logging.getLogger(__name__)
AT_ONCE = 4
"""Mirrors that are published at the same time at most; one with deletion vectors may take 1 GiB."""


def is_overdue(base: Base, settings: TableSettings) -> bool:
    """Return True if the Delta mirror lacks a change that is as old as ``mirror.every``.

    An Iceberg mirror is published with it. What that lacks is known to its catalog alone, which is
    not asked for each table: one without a Delta mirror is left to those who commit.

    A mirror that waits for a merge is published all the same, since the log of that run says why.
    One of a table without properties is not: its first merge gives them to it, or a person, and
    until then each publication would be refused. ``firnline verify`` reports it.

    Requests: none for a table without a mirror or with ``every: null``, or if nothing in its log is
    that old; else those of ``lag.behind_since``: 1 LIST, and 1 ranged GET unless the table has been
    quiet.

    Args:
        base: the table, read before.
        settings: of the settings file, which say who publishes.
    """
    every, snapshot = settings.mirror_every, base.snapshot
    if every is None or not snapshot.listing or base.properties is None:
        return False
    limit = base.table.clock.now_ms() - every
    if all(item.modified_ms > limit for item in snapshot.listing.values()):
        return False
    try:
        since = behind_since(base.table, snapshot)
    except MirrorDamagedError:
        return True  # its publication fails and says why; the table itself is merged all the same
    return since is not None and since <= limit


def ends_wait(base: Base, plan: MergePlan) -> bool:
    """Return True if a merge rewrites or drops parts for which a mirror of the table waits.

    Until then the mirror shows nothing newer. Requests: none.

    Args:
        base: the table, read before.
        plan: of the merge.
    """
    stated = () if base.properties is None else base.properties.mirrors
    if not stated:
        return False
    snapshot, hiding = base.snapshot, parts_with_deletes(base.snapshot)
    holds = (
        hold_of(base, hiding) if "delta" in stated else None,
        iceberg.hold_of(snapshot) if "iceberg" in stated else None,
    )
    if not any(holds):
        return False
    held = {each.marker.p for each in hiding}
    return any(
        marker.p in held or marker.n is None or snapshot.pending_changes(marker)
        for group in (*plan.groups, *plan.hidden)
        for marker in group.parts
    )


@dataclass(frozen=True, slots=True)
class NotPublished:
    """A table whose mirror could not be published."""

    table: str
    message: str


def publish_mirrors(
    tables: Sequence[Member], run: RunIdentity, concurrency: int
) -> list[MirrorReport | NotPublished]:
    """Publish the mirrors of some tables, in their order; one that fails holds up no other.

    Requests: those of ``mirror.run.run_mirror`` for each.

    Args:
        tables: the tables.
        run: who runs it.
        concurrency: number of tables at the same time; at most ``AT_ONCE``.
    """
    from firnline.operations.mirror.run import run_mirror

    def one(member: Member) -> MirrorReport | NotPublished:
        try:
            return run_mirror(Work(member.open(), run), MirrorOptions())
        except FirnlineError as error:
            return NotPublished(member.name, str(error))
        except Exception as error:  # noqa: BLE001 - logged, and told as the table's state
            _LOG.exception("the mirror of %s could not be published", member.name)
            return NotPublished(member.name, f"{type(error).__name__}: {error}")

    return at_once(tables, one, min(concurrency, AT_ONCE))
