"""Completes the certificate of an erase: deletes expired parts and searches for what remains."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import msgspec

from firnline.commit.base import Base, take_base
from firnline.errors import UsageError
from firnline.log import codec, txn_file
from firnline.log.erases import EraseLink, newest, newest_of
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.retention import TXN_KEPT
from firnline.operations.deletion import Deleter
from firnline.operations.erase.certificate import (
    OP,
    Certificate,
    Listed,
    Remaining,
    Replaced,
    check_id,
    forget,
    list_certificates,
    read,
    remaining,
    write,
)
from firnline.operations.erase.digests import sealed
from firnline.operations.erase.evidence import Findings, Inventory, Search, collect_evidence
from firnline.operations.erase.known import Known, named
from firnline.operations.erase.leftovers import clear_keys, is_over
from firnline.operations.erase.mirrors import shown_parts
from firnline.operations.erase.proof import ShownKeys, proven
from firnline.operations.erase.searches import SEARCHES
from firnline.operations.erase.text import find_text
from firnline.operations.erase.unnamed import find_unnamed
from firnline.properties.in_force import waits
from firnline.state.birth import last_number
from firnline.state.history import Head, heads, history
from firnline.state.holds import dead_under_hold
from firnline.state.snapshot import Snapshot
from firnline.table import Table


def complete_certificate(
    table: Table, erase: str, run: RunIdentity, shown: ShownKeys | None = None
) -> Certificate:
    """Delete the replaced parts once their grace is over, and certify that nothing holds the keys.

    Safe to repeat. Until nothing but text of the log remains the answer is the certificate with
    status ``waiting`` and a list of what remains and until when; then ``{id}.complete.json`` is
    created. Later calls give that one, with what then remains of the text.

    Requests: the listings of ``_data/``, ``_log/`` and ``_txn/``, one GET per log file and
    transaction, two or three for the certificate (with parts that nobody has read also one for
    each other certificate); one DELETE per 1,000 replaced parts and their
    listing once more; those of ``searches.SEARCHES``: 1 LIST of each folder whose objects may hold
    a key, 1 GET of ``_probe/clone``, and 1 GET for each unnamed object of after the waits.

    Args:
        table: the table.
        erase: id of the certificate.
        run: who asks.
        shown: the keys, from somebody who has them and the secret: then statistics decide also
            after the log has forgotten the keys.

    Raises:
        UsageError: there is no such certificate, or the keys are not those of it.
        LogCorruptError: a certificate, log file or transaction does not read.
    """
    check_id(table, erase)
    done = read(table, table.paths.completed_certificate(erase))
    certificate = done or read(table, table.paths.certificate(erase))
    inventory, base = _inventory(table)
    table = inventory.table
    if certificate is None:
        certificate = _resolve(table, erase, inventory.snapshot)
    keys = None if shown is None else proven(table, certificate, base.snapshot.schema, shown)
    if certificate.replaced is None:
        return certificate
    said = Known.of(table.paths, certificate)
    search = Search(inventory, certificate, certificate.replaced, said, keys)
    findings = collect_evidence(search)
    if any(entry.kind in {"unread part", "late part"} for entry in findings.remaining):
        search = replace(
            search, known=Known.of(table.paths, certificate, _same_keys(table, certificate))
        )
        findings = collect_evidence(search)
    if done is not None:
        clear_keys(search)
        rest = (*findings.remaining, *find_unnamed(search), *find_text(search))
        return msgspec.structs.replace(done, remaining=rest)
    return _conclude(search, base, findings, run)


@dataclass(frozen=True, slots=True)
class Settled:
    """What an erase finds of those before it."""

    written: tuple[str, ...]
    """Ids of certificates that their runs had not written."""
    last: EraseLink | None
    """The newest erase, where the log does not name it; None where it does, or if there is none."""


def settle(table: Table, snapshot: Snapshot) -> Settled:
    """Write the certificates of runs that died between their commit and their certificate.

    Also deletes key files that no run can need any more. One LIST when there is nothing to do; one
    GET per certificate besides where the log does not name the newest erase.
    """
    settled: list[str] = []
    listing = list_certificates(table)
    for listed in listing:
        if listed.status == "planned":
            state = _resolve(table, listed.id, snapshot)
            if state.status == "waiting":
                settled.append(listed.id)
        if listed.has_keys and is_over(table, listed, _commit_ttl(table, snapshot)):
            forget(table, table.paths.erase_keys(listed.id))
    return Settled(tuple(settled), _last(table, snapshot, listing))


def _last(table: Table, snapshot: Snapshot, listing: Sequence[Listed]) -> EraseLink | None:
    """Read the newest erase from its certificate if the log does not name it.

    The certificates of older versions are in no chain; clients of version 1 fold the record away.
    """
    if newest(snapshot.other) is not None:
        return None
    keys = [table.paths.certificate(listed.id) for listed in listing if listed.status != "void"]
    found = (read(table, key) for key in keys)
    return newest_of(*(None if one is None else one.link for one in found))


def _commit_ttl(table: Table, snapshot: Snapshot) -> int:
    """Return the longest time after its beginning at which any run may still commit, ms."""
    return waits(snapshot.properties, table.settings, table.clock.now_ms()).commit_ttl


def _inventory(table: Table) -> tuple[Inventory, Base]:
    # The time first: what is waited for is over when the objects are listed. A run that stood still
    # after that does not know what others have written since.
    now = table.clock.now_ms()
    # Then the objects: what is published between the two listings is then no orphan.
    objects = {meta.key: meta for meta in table.store.list(table.paths.data_dir)}
    base = take_base(table, everything=True)
    return Inventory(base.table, base.snapshot, objects, now), base


def _resolve(table: Table, erase: str, snapshot: Snapshot) -> Certificate:
    """Resolve an erase that wrote its plan and nothing since: committed, void or still planned."""
    plan = read(table, table.paths.erase_plan(erase))
    if plan is None:
        raise UsageError(
            f"there is no certificate {erase} of {table.settings.name}",
            next_step=f"list them with `firnline certificate {table.settings.name}`",
        )
    replaced = _committed(table, plan, snapshot)
    if replaced is not None:
        known = _with_place(table, plan, replaced)
        return write(table, table.paths.certificate(erase), sealed(known, table.paths))
    if plan.planned_ms + _commit_ttl(table, snapshot) < table.clock.now_ms():
        return msgspec.structs.replace(plan, status="void")
    return plan


def _with_place(table: Table, plan: Certificate, replaced: Replaced) -> Certificate:
    """Return the certificate of a committed erase; its transaction may be past its retention."""
    certificate = msgspec.structs.replace(plan, status="waiting", replaced=replaced)
    for header, digest in heads(table, [table.paths.txn(replaced.seq)]):
        head = Head(header.seq, digest)
        certificate = msgspec.structs.replace(certificate, link=header.erase, head=head)
    return certificate


def _committed(table: Table, plan: Certificate, snapshot: Snapshot) -> Replaced | None:
    """Return the transaction of a planned erase, if there is one."""
    record = next((snapshot.deletes[d] for d in plan.deletes if d in snapshot.deletes), None)
    if record is not None:
        return Replaced(record.seq, record.t)
    if plan.planned_ms + _commit_ttl(table, snapshot) >= table.clock.now_ms():
        return None
    # So long ago that the record may have done its work and be deleted; its transaction may not.
    for header in history(table, TXN_KEPT):
        if header.op == OP and header.t >= plan.planned_ms:
            key = table.paths.txn(header.seq)
            _, log_file = txn_file.decode(key, table.store.get(key), table.paths)
            content = codec.decode(header.log, log_file, table.paths)
            # A later erase may have folded the record: it says itself which one committed it.
            for delete in content.deletes:
                if delete.id in plan.deletes:
                    return _unless_ended(table, Replaced(delete.seq, delete.t))
    return None


def _unless_ended(table: Table, replaced: Replaced) -> Replaced | None:
    """Return None for a transaction of a history that a downgrade has ended: it slept through that.

    What is left under a number that is used up may have been created afterwards, and has not
    happened then. An erase that had happened and was never certified is run again.

    Requests: 1 GET.
    """
    return replaced if replaced.seq > last_number(table.store, table.paths) else None


def _same_keys(table: Table, certificate: Certificate) -> list[Certificate]:
    """Return the certificates of other erases of the same keys, which repair a failed one."""
    others = []
    for listed in list_certificates(table):
        if listed.id != certificate.id and listed.status in {"waiting", "complete"}:
            other = read(table, table.paths.certificate(listed.id))
            if other is not None and _is_of_same_keys(certificate, other):
                others.append(other)
    return others


def _is_of_same_keys(certificate: Certificate, other: Certificate) -> bool:
    if certificate.version == other.version == 1:
        return (other.columns, other.digest) == (certificate.columns, certificate.digest)
    # Digests have a secret each; the later one saw the records of the earlier one.
    return set(certificate.deletes) <= set(other.covers)


@dataclass(frozen=True, slots=True)
class _Deletion:
    gone: frozenset[str]
    remaining: tuple[Remaining, ...]


def _conclude(search: Search, base: Base, findings: Findings, run: RunIdentity) -> Certificate:
    inventory, certificate, table = search.inventory, search.certificate, search.table
    shown = shown_parts(inventory, findings.deletable)
    held = dead_under_hold(inventory.snapshot, findings.deletable)
    free = (key for key in findings.deletable if key not in shown and key not in held)
    deletion = _delete(table, tuple(free))
    others = [entry for each in SEARCHES.values() for entry in each(search, base, run)]
    rest = (
        *deletion.remaining,
        *remaining(
            "replaced part",
            sorted(shown),
            "the Delta mirror shows it, or did so within the grace",
            "run `firnline mirror`, and this again when the grace is over",
        ),
        *remaining(
            "replaced part",
            sorted(held),
            "a legal hold that was put after the erase may cover rows of it",
            f"this again when a person has ended the hold: `firnline hold {table.settings.name}` "
            "lists them",
        ),
        *findings.remaining,
        *others,
    )
    present = _present(search, deletion.gone)
    parts = tuple(
        part
        if part.key in present
        else msgspec.structs.replace(part, gone_ms=part.gone_ms or table.clock.now_ms())
        for part in certificate.parts
    )
    seen = msgspec.structs.replace(certificate, parts=parts, remaining=rest)
    if present or any(entry.blocks for entry in rest):
        return seen
    state = inventory.snapshot
    complete = msgspec.structs.replace(
        seen,
        status="complete",
        completed_ms=table.clock.now_ms(),
        completed_by=run,
        head=Head(state.seq, state.digest) if state.digest else None,
    )
    return write(
        table, table.paths.completed_certificate(certificate.id), sealed(complete, table.paths)
    )


def _present(search: Search, gone: Collection[str]) -> set[str]:
    """Return the parts that held keys and have an object, as the certificate names them."""
    own = {part.key for part in search.certificate.parts}
    there = search.inventory.objects.keys() - set(gone)
    return own & {name for key in there for name in (key, named(key))}


def _delete(table: Table, keys: tuple[str, ...]) -> _Deletion:
    """Delete replaced parts and confirm by a listing that they are gone."""
    if not keys:
        return _Deletion(frozenset(), ())
    deleter = Deleter(table, len(keys))
    answered = deleter.delete(keys)
    folders = sorted({key.rpartition("/")[0] + "/" for key in keys})
    still = {meta.key for folder in folders for meta in table.store.list(folder)}.intersection(keys)
    refused = {failure.key: failure.message for failure in deleter.failures}
    left = sorted(still | (set(keys) - answered))
    why = next((refused[key] for key in left if key in refused), "it is listed after its deletion")
    return _Deletion(
        frozenset(answered - still),
        remaining("replaced part", left, f"the store did not delete it: {why}", "run this again"),
    )
