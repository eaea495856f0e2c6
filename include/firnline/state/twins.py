"""Two transactions with one number: what a lost object under ``_txn/`` makes possible.

The object of the first was lost while the run of the other was under way: the create-only put of
that succeeded, on a state without the first. Both have log files (docs/guarantees.md, "Lost
objects").
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from firnline.errors import DoubledRowsError
from firnline.log.reader import LogObject

NEXT_STEP = (
    "run `firnline rebuild --force`, which leaves out what the younger one did, and do that again"
)


def twins_of(
    listing: Mapping[str, LogObject], folded: Container[str]
) -> tuple[tuple[str, str], ...]:
    """Return pairs of log files that count, of transactions with one number, the older first.

    Args:
        listing: the log files that count for readers.
        folded: those that others have folded: of them nothing counts any more.
    """
    by_number: dict[int, list[LogObject]] = {}
    for key, item in listing.items():
        if item.name.seq and key not in folded:
            by_number.setdefault(item.name.seq, []).append(item)
    twins = [sorted(two, key=lambda i: i.modified_ms) for two in by_number.values() if two[1:]]
    return tuple((two[0].name.key, two[1].name.key) for two in twins)


def sentence(older: str) -> str:
    """Return what is said of the younger of two: a clause."""
    return (
        f"was committed under the number of {older}, whose object under _txn/ was lost: what both "
        "replaced may be there twice"
    )


def refuse_twins(twins: tuple[tuple[str, str], ...]) -> None:
    """Raise DoubledRowsError if there are any."""
    for older, younger in twins:
        raise DoubledRowsError(f"{younger} {sentence(older)}", next_step=NEXT_STEP)
