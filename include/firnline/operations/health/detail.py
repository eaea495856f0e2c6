"""One table in detail, for its page: partitions, transactions, sizes, schema, what comes next.

Pure: everything comes from one reading, so that the figures agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any

import msgspec

from firnline.errors import FirnlineError
from firnline.log.parts_view import figures
from firnline.log.taken_in import TakenIn
from firnline.log.txn_file import TxnHeader
from firnline.operations.erase.certificate import OP as ERASE
from firnline.operations.health.held import holds_of
from firnline.operations.health.histogram import SIZE_STEPS, histogram
from firnline.operations.health.money import money
from firnline.operations.health.reading import Reading
from firnline.operations.health.savings import savings
from firnline.operations.hidden import columns_in, shown_partition
from firnline.operations.inspect.prices import Prices
from firnline.operations.merge.plan import MergePlan
from firnline.operations.operation import Plan
from firnline.operations.prepared.waiting import WaitingChange
from firnline.operations.restore.undone import Undone, undone
from firnline.properties.in_force import as_text, differences, stated
from firnline.state.snapshot import Snapshot

HISTORY = 500
"""Newest transactions from which savings are told."""
TRANSACTIONS = 100
"""Of these, the newest ones that are listed."""
PARTITIONS = 20_000
"""Partitions that are listed at most, those with the most to merge first."""
PREPARED_PARTITIONS = 20
"""Partitions of a prepared change that are listed."""
REASONS = 5
"""Reasons per partition for parts that a merge leaves alone."""
_LONG = ("groups", "partitions", "undecided")
"""Lists of a plan's figures that may be as long as the table is large."""


def detail_of(reading: Reading) -> dict[str, Any]:
    """Return a table as plain data; sizes in bytes, times in unix milliseconds."""
    snapshot, merge = reading.snapshot, reading.merge
    undoings = undone(reading.headers)
    gone = {seq for seq, one in undoings.items() if not one.partly}
    columns = {erase.id: erase.columns for erase in reading.erases}
    return {
        "seq": snapshot.seq,
        "partition_count": len(snapshot.partitions),
        "partitions": _partitions(snapshot, merge if isinstance(merge, MergePlan) else None),
        "sizes": {
            "steps": list(SIZE_STEPS),
            "counts": histogram(b for one in figures(snapshot.partitions) for b in one.sizes),
        },
        "transactions": [
            _transaction(header, undoings.get(header.seq), _shown_partitions(header, columns))
            for header in reading.headers[:TRANSACTIONS]
        ],
        "not_taken_in": _appends(snapshot.not_taken_in),
        "savings": savings(reading.headers, gone).to_json(),
        "money": _money(reading, gone),
        "schema": dict(snapshot.schema),
        "changes": [
            {"seq": change.seq, "t": change.t, "what": change.what.in_words()}
            for change in snapshot.changes
        ],
        "next": {
            "merge": _summary(merge),
            "cleanup": _summary(reading.cleanup()),
            "ttl": _summary(reading.ttl),
        },
        "properties": _properties(reading),
        "prepared": [_prepared(change) for change in reading.prepared.changes],
        "prepared_problem": reading.prepared.problem,
        "erases": [msgspec.to_builtins(each) for each in reading.erases],
        "holds": holds_of(snapshot, reading.erases, reading.settings.primary_key),
    }


def _money(reading: Reading, undone: Set[int]) -> dict[str, Any] | None:
    grace = reading.settings.cleanup.grace
    found = money(reading.headers, undone, reading.now_ms, grace, Prices())
    return None if found is None else found.to_json()


def _prepared(change: WaitingChange) -> dict[str, Any]:
    """Return what waits for a decision, with its figures; sample rows stay where they are."""
    shown: dict[str, Any] = msgspec.to_builtins(change.evidence)
    return {
        "id": change.id,
        "t": change.t,
        "seq": change.seq,
        "dag_id": change.run.dag_id,
        "run_id": change.run.run_id,
        "user": change.run.user,
        "begun": change.begun,
        "is_query": not change.options.get("where"),
        "asked": change.options.get("where") or change.options.get("sql") or "",
        "parts": change.parts,
        "bytes": change.bytes,
        "evidence": {
            **{name: value for name, value in shown.items() if name != "samples"},
            "partitions": shown["partitions"][:PREPARED_PARTITIONS],
        },
    }


def _partitions(snapshot: Snapshot, plan: MergePlan | None) -> list[dict[str, Any]]:
    waiting: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for group in (*plan.groups, *plan.hidden) if plan else ():
        waiting[group.partition] += len(group.parts)
    for left in plan.left_alone if plan else ():
        reasons[left.partition][left.reason] += left.parts
    rows: list[dict[str, Any]] = [
        {
            "partition": one.partition,
            "parts": len(one.sizes),
            "bytes": sum(one.sizes),
            "rows": None if None in one.rows else sum(n or 0 for n in one.rows),
            "merge": waiting[one.partition],
            "left_alone": dict(reasons[one.partition].most_common(REASONS)),
        }
        for one in figures(snapshot.partitions)
    ]
    if len(rows) > PARTITIONS:
        rows.sort(key=lambda row: (-row["merge"], row["partition"]))
        rows = sorted(rows[:PARTITIONS], key=lambda row: row["partition"])
    return rows


def _shown_partitions(header: TxnHeader, columns: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the partitions of a transaction; of an erase without what may be a key.

    Args:
        header: of the transaction.
        columns: of the keys of erases, by id; of one that is not known no value is shown.
    """
    if header.op != ERASE:
        return list(header.partitions[:20])
    known = () if header.erase is None else columns.get(header.erase.id, ())
    found = header.partitions[:20]
    names = known or columns_in(found)
    return list(dict.fromkeys(shown_partition(each, names) for each in found))


def _transaction(
    header: TxnHeader, undoing: Undone | None, partitions: list[str]
) -> dict[str, Any]:
    return {
        "seq": header.seq,
        "t": header.t,
        "op": header.op,
        "why": header.why,
        "run": msgspec.to_builtins(header.run),
        "counts": msgspec.to_builtins(header.counts),
        "appends": _appends(header.appends),
        "partitions": partitions,
        "partition_count": len(header.partitions),
        "undone": None if undoing is None else asdict(undoing),
    }


def _appends(found: Sequence[TakenIn]) -> list[dict[str, Any]]:
    return [{**msgspec.structs.asdict(each), "words": each.in_words()} for each in found]


def _summary(plan: Plan | FirnlineError | None) -> dict[str, Any] | None:
    """Return the figures of what a run would do, or why it cannot be planned."""
    if plan is None:
        return None
    if isinstance(plan, FirnlineError):
        return {"problem": plan.message, "next_step": plan.next_step}
    plain: Mapping[str, Any] = plan.to_json()
    counts = {name: value for name, value in plain.items() if name not in _LONG}
    return {**counts, "nothing_to_do": plan.nothing_to_do}


def _properties(reading: Reading) -> Sequence[dict[str, Any]]:
    """Return each property: what the table says, and what the settings say where they differ."""
    if reading.properties is None:
        return [
            {"name": name, "table": None, "settings": as_text(name, value)}
            for name, value in stated(reading.wanted).items()
        ]
    has = msgspec.to_builtins(reading.properties)
    differing = {each.name: each.wanted for each in differences(reading.wanted, reading.properties)}
    return [
        {"name": name, "table": as_text(name, value), "settings": differing.get(name)}
        for name, value in has.items()
    ]
