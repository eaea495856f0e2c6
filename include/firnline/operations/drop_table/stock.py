"""The objects below a table's root, and the order in which they are deleted: pure.

The order is the argument. Parts and all else go first: the log still says that the table is
dropped. Then the log, that of the newest transaction last: as long as it is there every part is
dead, and without it readers and appends meet transactions without a log, which is a lost log and
an error. Then the transactions, the mark last, by which another run knows what was under way; and
at the very end the birth record, with which a root without a log is no new table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firnline.ids import UUID7
from firnline.log import dated
from firnline.objects import kind_of
from firnline.paths import TablePaths
from firnline.store.base import ObjectMeta

FOREIGN = "foreign"
_LAST = ("log file", "transaction", "birth record")
"""Kinds that say what becomes of the table."""
_SHOWN = 1_000


class _EveryKey:
    """Contains whatever is asked for."""

    def __contains__(self, key: object) -> bool:
        return True


EVERY_KEY = _EveryKey()
"""Of a table whose log is not there to say which parts it names."""


@dataclass(frozen=True, slots=True)
class Under:
    """State of a table by which the objects below its root are judged."""

    named: Container[str]
    """Parts that its log names; all of them are dead."""
    mark: int
    """Transaction that dropped all; 0 if only the birth record is left."""
    mark_ms: int
    """Its last-modified time, unix ms."""
    now_ms: int
    wait_ms: int
    """Age at which what nobody names belongs to nobody any more, ms."""


@dataclass(frozen=True, slots=True)
class Stock:
    """The objects below a table's root."""

    objects: Mapping[str, int] = field(default_factory=dict)
    """Kind -> how many."""
    bytes: int = 0
    foreign: tuple[str, ...] = ()
    """Keys that are not of firnline's making."""
    nested: tuple[str, ...] = ()
    """Key prefixes of other tables below this one."""
    young: tuple[str, ...] = ()
    """Parts that nobody names and somebody may be about to."""
    first: tuple[tuple[str, ...], ...] = ()
    """Keys in the order of their deletion, as long as the log is whole."""
    last: tuple[tuple[str, ...], ...] = ()
    """Log, and transactions but the last two objects."""
    end: tuple[tuple[str, ...], ...] = ()
    """The mark, and the birth record."""

    @property
    def count(self) -> int:
        """Objects that are deleted, foreign ones included."""
        return sum(len(keys) for stages in (self.first, self.last, self.end) for keys in stages)

    @property
    def has_only_log(self) -> bool:
        """Return True if of firnline's own nothing is left but log and transactions."""
        return set(self.objects) <= {*_LAST, "probe", FOREIGN}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "objects": dict(self.objects),
            "bytes": self.bytes,
            "foreign": list(self.foreign[:_SHOWN]),
            "foreign_count": len(self.foreign),
            "nested": list(self.nested[:_SHOWN]),
            "young": list(self.young[:_SHOWN]),
        }


def take_stock(paths: TablePaths, metas: Iterable[ObjectMeta], under: Under) -> Stock:
    """Sort the objects below a root by what they are, and by when they are deleted.

    Args:
        paths: of the table.
        metas: all objects below its root.
        under: what is known of the table.
    """
    keys: dict[str, list[str]] = {}
    nested: dict[str, None] = {}
    young: list[str] = []
    size = 0
    for meta in metas:
        size += meta.size
        other = paths.nested_table(meta.key)
        if other is not None:
            nested[other] = None
            continue
        keys.setdefault(_kind(paths, meta.key, under), []).append(meta.key)
        if meta.key.startswith(paths.data_dir) and _is_young(meta, under):
            young.append(meta.key)
    counts = Counter({kind: len(found) for kind, found in keys.items()})
    logs, txns = keys.get("log file", []), keys.get("transaction", [])
    newest = _newest(paths, logs)
    mark = [key for key in txns if paths.parse_txn(key) == under.mark]
    others = [key for kind, found in keys.items() if kind not in (*_LAST, "part") for key in found]
    return Stock(
        objects=dict(counts),
        bytes=size,
        foreign=tuple(keys.get(FOREIGN, ())),
        nested=tuple(nested),
        young=tuple(young),
        first=_stages(keys.get("part", []), others),
        last=_stages(
            [key for key in logs if key not in newest],
            newest,
            [key for key in txns if key not in mark],
        ),
        end=_stages(mark, keys.get("birth record", [])),
    )


def _stages(*stages: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(keys) for keys in stages if keys)


def _kind(paths: TablePaths, key: str, under: Under) -> str:
    """Return the kind of an object; parts with names of others count only if the log has them."""
    kind = kind_of(paths, key)
    if kind is None:
        return FOREIGN
    stem = key.rpartition("/")[2].removesuffix(".parquet")
    if kind.name == "part" and key not in under.named and UUID7.fullmatch(stem) is None:
        return FOREIGN
    return kind.name


def _is_young(meta: ObjectMeta, under: Under) -> bool:
    """Return True for a part that nobody names if whoever has written it may still be at work.

    What is older than the mark has waited as long as the table.
    """
    if meta.key in under.named:
        return False
    since = dated.written_since(meta.key, meta.modified_ms, under.now_ms)
    return since >= under.mark_ms and under.now_ms - since <= under.wait_ms


def _newest(paths: TablePaths, logs: Iterable[str]) -> list[str]:
    """Return the log file of the newest transaction, in a list; an empty one without any."""
    numbers = {key: paths.parse_log(key).seq for key in logs}
    newest = max(numbers.values(), default=0)
    return [key for key, seq in numbers.items() if seq == newest > 0]
