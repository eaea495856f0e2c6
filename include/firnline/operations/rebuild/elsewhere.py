"""What the objects beside log and transactions say of a table's history, when that was lost.

Certificates of erases name the parts that are gone for good. They, checkpoints, mirrors, prepared
changes and records of runs name transactions: no number that one of them names is given again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from firnline.errors import LogCorruptError, MirrorDamagedError
from firnline.mirror.delta.head import read_head
from firnline.operations.erase.certificate import Certificate
from firnline.operations.erase.known import Known, named
from firnline.operations.prepared.expiry import Held, held, undecided_parts
from firnline.operations.run_records import newest_transaction
from firnline.operations.verify.certificates import survey_certificates
from firnline.table import Table


@dataclass(frozen=True, slots=True)
class Erased:
    """An erase that has replaced a part."""

    id: str
    seq: int
    t: int
    """Time of its transaction, unix ms."""

    @property
    def reason(self) -> str:
        """Return why the part is not live: a clause."""
        return f"was replaced by erase {self.id} (transaction {self.seq}), as its certificate says"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Transactions and erased parts that objects beside log and history name."""

    newest: int = 0
    """Highest number of a transaction; 0 if none is named."""
    named_by: str = ""
    """The object that names it: subject of a sentence."""
    erased: Mapping[str, Erased] = field(default_factory=dict)
    """By part, as certificates name it (``erase.known``): erases that have committed."""
    planned: Mapping[str, str] = field(default_factory=dict)
    """Part, named likewise -> erase that was to replace it, and may have committed."""
    erases: tuple[tuple[Certificate, Known], ...] = ()
    """Certificates of erases that have committed, and what they say of parts."""
    prepared: Mapping[str, str] = field(default_factory=dict)
    """Key of a part -> prepared change that brings it, if nobody has decided to commit that."""

    def erase_of(self, key: str) -> Erased | None:
        """Return the erase that has replaced a part."""
        return self.erased.get(key) or self.erased.get(named(key))

    def planned_for(self, key: str) -> str | None:
        """Return the erase that was to replace a part, and may have committed."""
        return self.planned.get(key) or self.planned.get(named(key))


NOWHERE = Elsewhere()


def read_elsewhere(table: Table, since_ms: int) -> Elsewhere:
    """Read certificates, and the numbers in names and heads of other objects.

    Requests: a LIST per 1,000 objects of ``_erase/``, ``_ckpt/``, ``_iceberg/shown/``, ``_runs/``,
    ``_prepared/`` and one of ``_delta_log/``; a GET per certificate, per record of a run since
    ``since_ms`` (unix ms), per prepared change, and of the newest version of a Delta mirror.

    Raises LogCorruptError for a certificate or record that does not read.
    """
    certificates, prepared = _certificates(table), held(table)
    replaced = {c.id: c for c in certificates if c.replaced is not None}
    newest, by = max(_numbers(table, replaced.values(), prepared, since_ms), default=(0, ""))
    erased = {
        part.key: Erased(c.id, c.replaced.seq, c.replaced.t)
        for c in replaced.values()
        if c.replaced is not None
        for part in c.parts
        if part.key  # where that has no name of ours, nobody knows which part it was
    }
    open_ones = [c for c in certificates if c.id not in replaced]
    planned = {part.key: c.id for c in open_ones for part in c.parts if part.key}
    erases = tuple((c, Known.of(table.paths, c)) for c in replaced.values())
    return Elsewhere(newest, by, erased, planned, erases, undecided_parts(prepared))


def _certificates(table: Table) -> list[Certificate]:
    """Return plans and certificates. Raises LogCorruptError."""
    survey = survey_certificates(table)
    for key, error in survey.broken.items():
        raise LogCorruptError(
            f"{key} does not read, and may name parts that were erased ({error.message})",
            next_step="restore the object from a backup, or move it out of _erase/ and exclude "
            "by hand what it named",
        )
    void = {c.id for c in survey.read.values() if c.status == "void"}
    return [c for c in survey.read.values() if c.id not in void]


def _numbers(
    table: Table, certificates: Iterable[Certificate], prepared: Held, since_ms: int
) -> Iterator[tuple[int, str]]:
    """Yield numbers of transactions, and who names each."""
    store, paths = table.store, table.paths
    for certificate in certificates:
        heads = [certificate.replaced, certificate.head]
        seq = max(head.seq for head in heads if head is not None)
        yield seq, f"certificate {certificate.id}"
    for meta in store.list(paths.checkpoint_dir):
        yield paths.checkpoint_seq(meta.key) or 0, f"checkpoint {meta.key}"
    for meta in store.list(paths.iceberg_shown_dir):
        shown = paths.parse_iceberg_shown(meta.key)
        yield shown.seq if shown is not None else 0, f"record {meta.key}"
    for change in prepared.statements.values():
        yield change.seq, f"prepared change {change.id}"
    yield newest_transaction(table, since_ms)
    try:
        head = read_head(store, paths)
    except MirrorDamagedError:
        return  # a mirror of somebody else, or a damaged one, names nothing that counts
    if head is not None:
        yield head.position.seq, f"version {paths.delta_version(head.version)}"
