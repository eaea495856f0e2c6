"""Rows with a time to live (``ttl.rows``).

Only worlds of ``AGING`` seeds have them. The time of a row follows from its key: one hour between
the keys of two appended rows.
"""

from __future__ import annotations

import datetime
from typing import Any

from firnline.log.records import Delete
from firnline.predicate.tree import And, Less, parse_json
from firnline.types.values import parse_nanoseconds
from simulation.world import GRACE, KEY_STEP, START_MS, Violation

AGING = range(15_000, 16_000)
"""Seeds of worlds whose rows have a time."""
COLUMNS = {"at": "TIMESTAMP"}
TTL: dict[str, Any] = {
    "keep": "1h",
    "column": "at",
    "rows": True,
    "max_removed_fraction": 1,
    "merged_within": f"{GRACE}ms",
}
WEIGHTS: dict[str, float] = {"expire": 2.0, "append": 3.0, "merge": 2.0}
_FIRST = START_MS - 3_650 * 86_400_000
"""Time of the row with key 0, unix ms."""
_STEP_MS = 3_600_000 // KEY_STEP
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone


def time_of(k: int) -> int:
    """Return the time of a row, unix ms."""
    return _FIRST + k * _STEP_MS


def moment_of(k: int) -> datetime.datetime:
    """Return the time of a row as its column holds it."""
    return _EPOCH + datetime.timedelta(milliseconds=time_of(k))


def hidden_keys(delete: Delete) -> range:
    """Return the keys of the rows that the record of a TTL hides."""
    tree = parse_json(delete.where)
    if isinstance(tree, And):  # without rows of legal holds
        tree = tree.args[0]
    if not isinstance(tree, Less) or tree.column not in COLUMNS:
        raise Violation(f"a TTL hides rows by {delete.where!r}")
    before = parse_nanoseconds(tree.value) // 1_000_000
    return range(-(-(before - _FIRST) // _STEP_MS))
