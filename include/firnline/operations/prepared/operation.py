"""The two decisions on a prepared change, as every door takes them."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.operation import Operation, Work
from firnline.operations.options import CommitOptions, DiscardOptions
from firnline.operations.prepared.pages import (
    commit_page,
    committed_page,
    discard_page,
    discarded_page,
)
from firnline.operations.prepared.run import (
    CommitReport,
    DiscardReport,
    PreparedPlan,
    commit_prepared,
    discard_prepared,
    preview_commit,
    preview_discard,
)
from firnline.table import Table


def _preview_commit(table: Table, options: CommitOptions) -> PreparedPlan:
    return preview_commit(table, options.id)


def _commit(work: Work, options: CommitOptions) -> CommitReport:
    return commit_prepared(work.table, options.id, work.identity)


def _commit_stopped(table: str, options: CommitOptions) -> tuple[str, str]:
    return (
        f"{options.id} is committed to {table} as a whole, or waits as before",
        "run the same command again",
    )


def _preview_discard(table: Table, options: DiscardOptions) -> PreparedPlan:
    return preview_discard(table, options.id)


def _discard(work: Work, options: DiscardOptions) -> DiscardReport:
    return discard_prepared(work.table, options.id, work.identity, options.why)


def _discard_stopped(table: str, options: DiscardOptions) -> tuple[str, str]:
    return (
        f"{options.id} of {table} may be discarded by half, and no reader sees its parts",
        "run the same command again",
    )


COMMIT = Operation(
    about=registry.COMMIT,
    preview=_preview_commit,
    act=_commit,
    plan_page=commit_page,
    report_page=committed_page,
    stopped=_commit_stopped,
)
DISCARD = Operation(
    about=registry.DISCARD,
    preview=_preview_discard,
    act=_discard,
    plan_page=discard_page,
    report_page=discarded_page,
    stopped=_discard_stopped,
)
