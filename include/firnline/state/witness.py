"""Witnesses: statements of what the history of a table was, kept outside of the table.

Whoever can write to the bucket can write another history with other digests. A number and a digest
that somebody noted elsewhere show that: the transactions up to there are those that it has seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from firnline.errors import UsageError

_LINE = re.compile(r"firnline-witness table=(\S+) transaction=(\d+) digest=([0-9a-f]{64})")
_CERTIFICATE = re.compile(
    r"firnline-witness table=(\S+) certificate=([0-9a-f-]{36}) digest=([0-9a-f]{64})"
)


_SHOWN = 60
"""Characters shown of a text that is refused."""


class Witness(msgspec.Struct, frozen=True):
    """A transaction of a table and its digest (``log.chain``)."""

    table: str
    seq: int
    digest: str

    def __str__(self) -> str:
        return f"firnline-witness table={self.table} transaction={self.seq} digest={self.digest}"


class CertificateWitness(msgspec.Struct, frozen=True):
    """A certificate of an erase and its digest (``operations.erase.digests``)."""

    table: str
    id: str
    digest: str

    def __str__(self) -> str:
        return f"firnline-witness table={self.table} certificate={self.id} digest={self.digest}"


def parse_certificates(texts: Iterable[str], table: str) -> tuple[CertificateWitness, ...]:
    """Return the witnesses of certificates of a table, oldest erase first.

    Args:
        texts: as of ``parse_witnesses``.
        table: name of the table.
    """
    certificates = {
        CertificateWitness(*one) for text in texts for one in _CERTIFICATE.findall(text)
    }
    mine = (witness for witness in certificates if witness.table == table)
    return tuple(sorted(mine, key=lambda witness: (witness.id, witness.digest)))


def parse_witnesses(texts: Iterable[str], table: str) -> tuple[Witness, ...]:
    """Return the witnesses of transactions of a table, oldest transaction first.

    Args:
        texts: texts that hold lines of ``firnline witness`` among others, of any tables.
        table: name of the table.

    Raises UsageError for a text that holds no such line, or one that is not whole, and where there
    is none of the table, of a certificate neither.
    """
    texts = tuple(texts)
    for text in texts:
        _refuse_other(text)
    witnesses = {
        Witness(name, int(seq), digest)
        for text in texts
        for name, seq, digest in _LINE.findall(text)
        if name == table
    }
    if not witnesses and not parse_certificates(texts, table):
        raise UsageError(
            f"there is no witness of table {table} in what was given",
            next_step="`firnline witness` prints one: note it outside of the table's bucket",
        )
    return tuple(sorted(witnesses, key=lambda witness: (witness.seq, witness.digest)))


def _refuse_other(text: str) -> None:
    """Raise UsageError for a text without a witness, and for a line that was to be one."""
    meant = [line for line in text.splitlines() if "firnline-witness" in line]
    wrong = [line for line in meant if not (_LINE.search(line) or _CERTIFICATE.search(line))]
    for line in wrong or ([] if meant else [text]):
        shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
        raise UsageError(
            f"{shown!r} is no witness",
            next_step="give whole lines that `firnline witness` printed, or a file of them",
        )
