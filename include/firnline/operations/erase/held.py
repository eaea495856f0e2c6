"""Keys of an erase that a legal hold covers."""

from __future__ import annotations

from firnline.errors import UsageError, quoted
from firnline.operations.erase.keys import KeySet
from firnline.predicate.pruning import evaluate
from firnline.predicate.tree import columns_of, parse_json
from firnline.properties.record import Hold
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.units import counted

_WAITS = "the erasure waits until a person ends the hold"


class HeldKeysError(UsageError):
    """Rows of the keys are under a legal hold, or may be."""


def refuse_held_keys(table: str, snapshot: Snapshot, keys: KeySet) -> None:
    """Raise HeldKeysError if rows of the keys may be under a legal hold. No text holds a key.

    A hold by other columns, or by partitions, covers rows of a key or does not: that keys alone do
    not tell, so an erase waits for its end.
    """
    end = f"; {_WAITS}: `firnline hold {table}` lists them"
    for hold in Held.of(snapshot).holds:
        count = _covered(hold, snapshot, keys)
        if count is None:
            raise HeldKeysError(
                f"whether rows of these keys are under the legal hold {quoted(hold.name)} "
                f"({hold.why}) cannot be told from the keys; nothing was erased",
                next_step=f"hold by {', '.join(keys.columns)} where possible{end}",
            )
        if count:
            raise HeldKeysError(
                f"{counted(count, 'key')} of {len(keys.keys):,} is under the legal hold "
                f"{quoted(hold.name)} ({hold.why}); nothing was erased",
                next_step=f"leave the keys of the hold out{end}",
            )


def _covered(hold: Hold, snapshot: Snapshot, keys: KeySet) -> int | None:
    """Return how many keys a hold covers; None: keys do not tell."""
    if hold.partitions or not hold.where:
        return None
    tree = parse_json(hold.where)
    if not set(columns_of(tree)) <= set(keys.columns):
        return None
    rows = (dict(zip(keys.columns, key, strict=True)) for key in keys.keys)
    return sum(evaluate(tree, row, snapshot.schema) is not False for row in rows)
