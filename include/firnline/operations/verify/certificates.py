"""Check that the certificates of erases are those that were written: by chain, by witnesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from firnline.errors import FirnlineError, LogCorruptError
from firnline.log import erases
from firnline.log.codec import UNREADABLE
from firnline.log.erases import EraseLink
from firnline.next_steps import WHO_WRITES
from firnline.operations.erase.certificate import VERSION, Certificate
from firnline.operations.erase.digests import plan_digest, whole_digest
from firnline.operations.verify.findings import Findings
from firnline.paths import COMPLETE_SUFFIX, PLAN_SUFFIX, TablePaths
from firnline.state.snapshot import Snapshot
from firnline.state.survey import TxnSurvey
from firnline.state.witness import CertificateWitness
from firnline.table import Table

_ASK = WHO_WRITES


@dataclass(frozen=True, slots=True)
class CertificateSurvey:
    """The objects under ``_erase/``."""

    read: Mapping[str, Certificate]
    """By key."""
    digests: Mapping[str, str]
    """Of the whole objects, computed, by key."""
    broken: Mapping[str, FirnlineError]
    """Errors of those that do not read, by key."""
    witnesses: tuple[CertificateWitness, ...] = ()
    """Certificates that somebody has seen."""


def survey_certificates(
    table: Table, witnesses: tuple[CertificateWitness, ...] = ()
) -> CertificateSurvey:
    """Read all plans and certificates of erases.

    To be called before the log and the transactions are read: whatever is certified is in them.

    Requests: a LIST per 1,000 objects of ``_erase/``, and a GET each.
    """
    read: dict[str, Certificate] = {}
    digests: dict[str, str] = {}
    broken: dict[str, FirnlineError] = {}
    listing = table.store.list(table.paths.erase_dir)
    sizes = {meta.key: meta.size for meta in listing if meta.key.endswith(".json")}
    for key, data in table.store.get_many(sizes):
        if data is None:
            continue  # the plan of an erase that is planned again
        try:
            read[key] = msgspec.json.decode(data, type=Certificate)
            digests[key] = whole_digest(data, table.paths)
        except UNREADABLE as error:
            broken[key] = LogCorruptError(str(error), next_step=_ASK)
        except LogCorruptError as error:
            broken[key] = error
    return CertificateSurvey(read, digests, broken, witnesses)


def check_certificates(
    findings: Findings,
    survey: CertificateSurvey,
    txns: TxnSurvey,
    snapshot: Snapshot,
    written_before_ms: int,
) -> None:
    """Report certificates that are not there, or not as they were written.

    Args:
        findings: takes what is found.
        survey: read before the log and the transactions.
        txns: the transactions that are kept.
        snapshot: the newest state.
        written_before_ms: an erase after this time, unix ms, may not have written its certificate
            yet.
    """
    run = _Check(findings, survey, txns, snapshot)
    for key, error in survey.broken.items():
        findings.add(
            "error", "certificate-unreadable", key, f"does not read: {error.message}", _ASK
        )
    for key, certificate in survey.read.items():
        run.each(key, certificate)
    run.chain(written_before_ms)
    run.witnessed(survey.witnesses)


@dataclass(slots=True)
class _Check:
    findings: Findings
    survey: CertificateSurvey
    txns: TxnSurvey
    snapshot: Snapshot
    links: dict[int, EraseLink] = field(default_factory=dict)
    """By number: what the transactions and the log state, or else the certificates."""

    def __post_init__(self) -> None:
        said = [h.erase for h in self.txns.headers.values() if h.erase is not None]
        newest = erases.newest(self.snapshot.other)
        self.links = {link.number: link for link in (*said, newest) if link is not None}

    @property
    def paths(self) -> TablePaths:
        return self.snapshot.paths

    def changed(self, key: str, sentence: str) -> None:
        self.findings.add("error", "certificate-changed", key, sentence, _ASK)

    def each(self, key: str, certificate: Certificate) -> None:
        if certificate.version > VERSION:
            self.findings.add(
                "note", "certificate-newer", key, "is of a later version, and was not checked",
                "upgrade firnline",
            )  # fmt: skip
            return
        name = key.removeprefix(self.paths.erase_dir).partition(".")[0]
        if certificate.id != name:
            self.changed(key, f"is that of another erase, {certificate.id}")
        elif key.endswith(PLAN_SUFFIX):
            return
        elif certificate.sha256 and certificate.sha256 != self.survey.digests[key]:
            self.changed(key, "has another digest than the one that it states")
        elif certificate.link is not None and not certificate.sha256:
            self.changed(key, "lacks the digest of the whole, which each that has a place states")
        elif certificate.link is not None:
            self._linked(key, certificate, certificate.link)
        elif key.endswith(COMPLETE_SUFFIX):
            self._as_before(key, certificate)
        elif any(link.id == certificate.id for link in self.links.values()):
            self.changed(key, "lacks its place in the chain, which its transaction states")
        else:
            self.findings.add(
                "note", "certificate-unchained", key, "was written by a version without a chain of "
                "certificates: a change of it would not be found", "keep a copy of it elsewhere",
            )  # fmt: skip

    def _linked(self, key: str, certificate: Certificate, link: EraseLink) -> None:
        replaced = certificate.replaced
        if link.id != certificate.id or link.plan != plan_digest(certificate, self.paths):
            self.changed(key, "states something else than what its transaction was committed with")
        elif replaced is None or (replaced.seq, replaced.t) != (link.seq, link.t):
            self.changed(key, f"names another transaction than {link.seq}, which committed it")
        else:
            self._history(key, certificate, link)
        if key.endswith(COMPLETE_SUFFIX):
            self._as_before(key, certificate)
        else:
            self._take(key, link)

    def _take(self, key: str, link: EraseLink) -> None:
        """Compare the place with the one that is known; the first to name a number is right."""
        known = self.links.setdefault(link.number, link)
        if known != link:
            self.changed(key, f"has the place of erase {known.id}, number {link.number}")

    def _history(self, key: str, certificate: Certificate, link: EraseLink) -> None:
        header, head = self.txns.headers.get(link.seq), certificate.head
        if header is not None and header.erase != link:
            self.changed(key, f"is not the one that transaction {link.seq} states")
        if head is None:
            return
        there = self.txns.links.get(head.seq)
        newest = max(self.txns.newest, self.snapshot.seq, self.txns.last)
        if there is not None and there.digest != head.digest:
            self.findings.add(
                "error", "certificate-history", key, f"certifies another transaction {head.seq} "
                "than the one that is there", _ASK,
            )  # fmt: skip
        elif head.seq > newest:
            self.findings.add(
                "error", "certificate-history", key, f"certifies transaction {head.seq}, and the "
                f"history ends with {newest}", _ASK,
            )  # fmt: skip

    def _as_before(self, key: str, certificate: Certificate) -> None:
        """Compare what completes a certificate with that certificate."""
        waiting = self.survey.read.get(self.paths.certificate(certificate.id))
        if waiting is not None and waiting.link != certificate.link:
            self.changed(key, "completes another certificate than the one that is there")

    def chain(self, written_before_ms: int) -> None:
        for number in range(1, max(self.links, default=0) + 1):
            link, later = self.links.get(number), self.links.get(number + 1)
            if link is not None:
                self._present(link, written_before_ms)
            else:
                self._missing(self.paths.erase_dir, f"has no certificate of erase {number}")
            if link is not None and later is not None and later.before != link.digest:
                self.changed(
                    self.paths.certificate(later.id),
                    f"was written after another erase {number} than {link.id}",
                )

    def _present(self, link: EraseLink, written_before_ms: int) -> None:
        key, plan = self.paths.certificate(link.id), self.paths.erase_plan(link.id)
        planned = self.survey.read.get(plan)
        same = planned is not None and plan_digest(planned, self.paths) == link.plan
        if planned is not None and not same and planned.version <= VERSION:
            self.changed(plan, "is not the plan that its transaction was committed with")
        if key in self.survey.read or key in self.survey.broken:
            return
        if self.snapshot.effective(link.t) > written_before_ms:
            return
        if same:
            self.findings.add(
                "note", "certificate-late", key, "was not written, its run died after the commit",
                "run `firnline certificate` with the table and its id",
            )  # fmt: skip
        else:
            self._missing(key, f"is not there: erase {link.number}, transaction {link.seq}")

    def _missing(self, key: str, sentence: str) -> None:
        self.findings.add("error", "certificate-missing", key, sentence, _ASK)

    def witnessed(self, witnesses: Iterable[CertificateWitness]) -> None:
        for seen in witnesses:
            keys = (self.paths.certificate(seen.id), self.paths.completed_certificate(seen.id))
            there = [key for key in keys if key in self.survey.digests]
            if seen.digest in (self.survey.read[key].sha256 for key in there):
                continue
            told = f"the certificate that a witness has seen (digest {seen.digest[:12]}…)"
            if len(there) == len(keys):
                self.changed(keys[1], f"is another one than {told}")
            else:
                self._missing(keys[-1 if there else 0], f"is not there, or not {told}")
