"""The erases of a table, as its page shows them: certificates, without a key."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firnline.errors import LogCorruptError
from firnline.ids import uuid7_time_ms
from firnline.log.erases import newest
from firnline.operations.erase.certificate import (
    Certificate,
    Listed,
    Status,
    list_certificates,
    read,
)
from firnline.operations.erase.pending import is_committed, longest_wait
from firnline.state.snapshot import Snapshot
from firnline.table import Table

ERASES = 20
"""Newest erases that are shown."""


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate of one erase."""

    id: str
    version: int
    status: Status
    t: int
    """Time of the erase, unix ms."""
    keys: int | None
    """Number of its keys; None of a certificate that does not read."""
    columns: tuple[str, ...]
    """Of the keys."""
    by: str
    """User who started it."""
    approved_by: str
    after_ms: int
    """Time before which it cannot be complete, unix ms."""
    completed_ms: int | None
    problem: str = ""
    """Why it does not read."""


def erases_of(table: Table, snapshot: Snapshot, known: Mapping[str, Erased]) -> tuple[Erased, ...]:
    """Return the newest erases, newest first.

    Requests: none for a table whose log names no erase; else a LIST per 1,000 objects of
    ``_erase/``, and 1 GET for each certificate that is not known.

    Args:
        table: the table, with the settings in force.
        snapshot: of its log.
        known: certificates that were read before, by id; one that has another status now is read.
    """
    last = newest(snapshot.other)
    if last is None:
        return ()
    listed = [each for each in list_certificates(table) if is_committed(each, last)]
    wait = longest_wait(table, snapshot.properties)
    erases: list[Erased] = []
    for each in listed[-ERASES:][::-1]:
        before = known.get(each.id)
        if before is not None and before.status == each.status and not before.problem:
            erases.append(before)
            continue
        try:
            certificate = read(table, _key(table, each))
        except LogCorruptError as error:  # no reason to show nothing else of the table
            erases.append(_unreadable(each, error, wait))
            continue
        if certificate is not None:
            erases.append(_erased(certificate, each.status, wait))
    return tuple(erases)


def _unreadable(listed: Listed, error: LogCorruptError, wait: int) -> Erased:
    t = uuid7_time_ms(listed.id)
    return Erased(
        id=listed.id,
        version=0,
        status=listed.status,
        t=t,
        keys=None,
        columns=(),
        by="",
        approved_by="",
        after_ms=t + wait,
        completed_ms=None,
        problem=error.message,
    )


def _key(table: Table, listed: Listed) -> str:
    paths = table.paths
    if listed.status == "complete":
        return paths.completed_certificate(listed.id)
    return (
        paths.certificate(listed.id) if listed.status == "waiting" else paths.erase_plan(listed.id)
    )


def _erased(certificate: Certificate, status: Status, wait: int) -> Erased:
    return Erased(
        id=certificate.id,
        version=certificate.version,
        status=status,
        t=certificate.erased_ms,
        keys=certificate.keys,
        columns=certificate.columns,
        by=certificate.run.user,
        approved_by=certificate.run.approved_by,
        after_ms=certificate.erased_ms + wait,
        completed_ms=certificate.completed_ms,
    )
