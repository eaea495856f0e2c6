"""Check that the history of a table is the one that was committed: by its chain, by witnesses."""

from __future__ import annotations

from collections.abc import Iterable

from firnline.next_steps import WHO_DELETED, WHO_WRITES
from firnline.operations.cleanup.retention import first_kept
from firnline.operations.verify.findings import Findings
from firnline.operations.verify.plan import rebuilt
from firnline.paths import TablePaths
from firnline.state.survey import LogSurvey, TxnSurvey
from firnline.state.witness import Witness

_ASK = WHO_WRITES


def check_chain(findings: Findings, txns: TxnSurvey, log: LogSurvey, paths: TablePaths) -> None:
    """Report transactions whose digests differ from what they, their log or the next one state.

    Transactions of versions without digests state nothing and are not checked; what comes after
    them states theirs.
    """
    for seq, link in sorted(txns.links.items()):
        key = paths.txn(seq)
        if link.content and link.content != link.content_now:
            findings.add(
                "error", "txn-changed", key,
                "holds another log file than the one that its header has the digest of", _ASK,
            )  # fmt: skip
        if link.mark and link.mark != link.digest:
            findings.add(
                "error", "txn-changed", key, "has another header than the one that its log file "
                "has the digest of", _ASK,
            )  # fmt: skip
        earlier = txns.links.get(seq - 1)
        # What a downgrade has ended is deleted, or was created afterwards, which is reported.
        ended = seq <= txns.last or (not link.before and seq - 1 == txns.last)
        if earlier is not None and link.content and link.before != earlier.digest and not ended:
            findings.add(
                "error", "txn-chain", key, "was committed after another transaction "
                f"{seq - 1} than the one that is there", _ASK,
            )  # fmt: skip
    _check_oldest(findings, txns, paths)
    _check_published(findings, txns, log)


def _check_oldest(findings: Findings, txns: TxnSurvey, paths: TablePaths) -> None:
    """Report that the history was cut off before the oldest transaction, which retention keeps."""
    oldest = min(txns.links, default=0)
    link = txns.links.get(oldest)
    # What a rebuild follows may have been lost, which is why there was a rebuild.
    if link is None or not link.before or oldest in rebuilt(txns) or oldest <= txns.last:
        return
    if oldest - 1 >= first_kept(txns.newest) and oldest - 1 not in txns.numbers:
        findings.add(
            "warning", "txn-gap", paths.txn(oldest - 1), "is not there, the next one was committed "
            "after it, and retention does not remove it",
            WHO_DELETED,
        )  # fmt: skip


def _check_published(findings: Findings, txns: TxnSurvey, log: LogSurvey) -> None:
    stated = {header.log: seq for seq, header in txns.headers.items()}
    for key, digest in log.digests.items():
        link = txns.links.get(stated.get(key, 0))
        if link is not None and link.content and link.content != digest:
            findings.add(
                "error", "log-changed", key, "is another log file than the one that its "
                "transaction was committed with",
                "the file under _txn/ holds the committed one behind its second line; " + _ASK,
            )  # fmt: skip


def check_witnesses(
    findings: Findings, txns: TxnSurvey, witnesses: Iterable[Witness], paths: TablePaths
) -> None:
    """Report transactions that a witness has seen otherwise, or that are not there any more."""
    oldest, newest = min(txns.numbers, default=0), txns.newest
    for witness in witnesses:
        key, link = paths.txn(witness.seq), txns.links.get(witness.seq)
        if link is not None and link.digest != witness.digest:
            findings.add(
                "error", "txn-replaced", key, "is another transaction than the one that a witness "
                f"has seen (digest {witness.digest[:12]}…)", _ASK,
            )  # fmt: skip
        elif witness.seq > newest:
            findings.add(
                "error", "txn-cut-off", key, f"is not there, and a witness has seen it: the "
                f"history ends with transaction {newest}", _ASK,
            )  # fmt: skip
        elif link is None and witness.seq >= oldest:
            findings.add(
                "error", "txn-cut-off", key, "is not readable any more, and a witness has seen it",
                _ASK,
            )  # fmt: skip
        elif link is None:
            findings.add(
                "note", "witness-old", key, "is past its retention: its witness shows nothing any "
                "more", "note a newer one with `firnline witness`",
            )  # fmt: skip
