"""Certificates that are open: which of them may be complete by now."""

from __future__ import annotations

from collections.abc import Sequence

from firnline.ids import uuid7_time_ms
from firnline.log.erases import EraseLink, newest
from firnline.operations.erase.certificate import Listed, list_certificates
from firnline.properties.in_force import waits
from firnline.properties.record import PropertiesRecord
from firnline.state.snapshot import Snapshot
from firnline.table import Table


def ripe_certificates(table: Table, snapshot: Snapshot, at_ms: int) -> tuple[str, ...]:
    """Return the open certificates that may be complete at a time, oldest first.

    Those of runs that died before they wrote them, too, where the log names them. The certificates
    of a table whose newest erase a client of version 1 has folded away are not found.

    Requests: none for a table whose log names no erase, or one that is its first and too young;
    else a LIST per 1,000 objects of ``_erase/``.

    Args:
        table: the table, with the settings in force.
        snapshot: of its log.
        at_ms: the time, unix ms.
    """
    last = newest(snapshot.other)
    if last is None:
        return ()
    wait = longest_wait(table, snapshot.properties)
    now_ms = table.clock.now_ms()

    def is_ripe(began_ms: int) -> bool:
        # A date in the future says nothing of the age.
        return began_ms + wait <= at_ms or began_ms > now_ms

    if last.number == 1 and not is_ripe(last.t):
        return ()
    return tuple(
        listed.id
        for listed in list_certificates(table)
        if listed.status != "complete"
        and is_committed(listed, last)
        and is_ripe(began(listed.id, last))
    )


def longest_wait(table: Table, records: Sequence[PropertiesRecord] = ()) -> int:
    """Return how long after an erase its certificate cannot be complete, ms.

    Args:
        table: the table, with the settings in force.
        records: of its log; without them the settings alone count.
    """
    others = waits(records, table.settings, table.clock.now_ms())
    return max(others.grace, others.append_ttl, others.commit_ttl)


def began(erase: str, last: EraseLink) -> int:
    """Return the time of an erase as far as names tell it, unix ms: its commit, or its beginning.

    Args:
        erase: id of the certificate.
        last: the newest erase of the table.
    """
    return last.t if erase == last.id else uuid7_time_ms(erase)


def is_committed(listed: Listed, last: EraseLink) -> bool:
    """Return True if an erase has happened, as far as names tell it.

    Of those that are planned only the newest certainly has: each erase settles the ones before it,
    and what is planned still was never committed.
    """
    return listed.status in {"waiting", "complete"} or (
        listed.status == "planned" and listed.id == last.id
    )
