"""Determine the properties in force, and how long operations with older ones may still run.

The table itself states what affects correctness or layout (docs/format.md, "Properties"); settings
only state what their author wants. Pure functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from pydantic import ValidationError

from firnline.errors import PropertiesDifferError, SettingsError
from firnline.properties.record import Cluster, Properties, PropertiesRecord
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.settings.fields import PartitionField, SortField, ends_misspelt
from firnline.settings.load import TableSettings
from firnline.settings.mirrors import Mirror
from firnline.settings.sections import ClusterSettings
from firnline.types.order import Order, order_of, parse_key
from firnline.units import format_duration, format_size

IDENTITY = ("primary_key", "version", "deleted")
"""Properties that decide which row of a key wins: other settings for them are refused."""
HARMLESS = frozenset({"sort_by", "statistics", "deletes", "mirror"})
"""Properties that a scheduled run applies by itself: parts of before and after are compatible, and
a mirror that begins shows only parts that are live by then. A mirror ends by a person only."""
_TIMES = frozenset(
    ("append.ttl", "commit_ttl", "cleanup.grace", "orphan_grace", "deleted_keep", "append.once")
)
_JSON = ("{", '"')
"""First characters of JSON text. A column whose name begins with one is written as JSON too."""
FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(Properties))
"""Names of all properties, as in the settings."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A property that differs between the settings and the table."""

    name: str
    wanted: str
    """Value in the settings, as text."""
    table: str

    @property
    def harmless(self) -> bool:
        """Return True if a scheduled run may apply it."""
        return self.name in HARMLESS


def from_settings(settings: TableSettings) -> Properties:
    """Return the properties that a new table gets from its settings."""
    cluster = settings.cluster_by
    return Properties(
        append_ttl=settings.append.ttl,
        commit_ttl=settings.commit_ttl,
        grace=settings.cleanup.grace,
        orphan_grace=settings.orphan_grace,
        locking=settings.locking,
        primary_key=settings.primary_key,
        version=settings.version,
        deleted=settings.deleted,
        deleted_keep=settings.deleted_keep,
        partition_by=tuple(_field_text(f.model_dump()) for f in settings.partition_by),
        partition=settings.partition,
        sort_by=tuple(_sort_text(f) for f in settings.sort_by),
        cluster_by=None
        if cluster is None
        else Cluster(cluster.columns, cluster.method, cluster.run_size),
        deletes=settings.deletes,
        statistics=settings.statistics_columns,
        mirror=settings.mirrors,
        append_once=settings.append.once,
    )


def _field_text(plain: object) -> str:
    """Return the short form of a field, or JSON for a column that the short form cannot hold."""
    if isinstance(plain, str) and not plain.startswith(_JSON):
        return plain
    return msgspec.json.encode(plain).decode()


def _sort_text(field: SortField) -> str:
    # Settings refuse the short form of a column such as "ts dsc"; tables have always stated it so.
    return _field_text(str(field) if ends_misspelt(field.column) else field.model_dump())


def _sort_field(text: str) -> SortField:
    """Return a field that a table states, which is never refused for how its column ends."""
    plain = _field(text)
    if isinstance(plain, str):
        plain = dataclasses.asdict(parse_key(plain))
    return SortField.model_validate(plain)


def _field(text: str) -> Any:  # noqa: ANN401 - what pydantic makes a field of
    return msgspec.json.decode(text) if text.startswith(_JSON) else text


def stated(settings: TableSettings) -> dict[str, Any]:
    """Return the properties that are set in the settings; for the others the table's apply."""
    given = settings.model_fields_set
    names = {name for name in FIELDS if name in given}
    names |= {"append.ttl"} if _is_set(settings, "append", "ttl") else set()
    names |= {"append.once"} if _is_set(settings, "append", "once") else set()
    names |= {"cleanup.grace"} if _is_set(settings, "cleanup", "grace") else set()
    values = from_settings(settings).plain()
    return {name: values[name] for name in FIELDS if name in names}


def _is_set(settings: TableSettings, section: str, key: str) -> bool:
    given = settings.model_fields_set
    return section in given and key in getattr(settings, section).model_fields_set


def differences(settings: TableSettings, table: Properties) -> tuple[Difference, ...]:
    """Return the properties that the settings set differently from the table, in their order."""
    has = table.plain()
    return tuple(
        Difference(name, as_text(name, value), as_text(name, has[name]))
        for name, value in stated(settings).items()
        if not _same(name, value, has[name])
    )


def _same(name: str, own: Any, has: Any) -> bool:  # noqa: ANN401 - plain data
    if name == "statistics":
        return set(own) <= set(has)  # the table also has those of its key and layout
    return bool(_plain_value(own) == _plain_value(has))


def _plain_value(value: Any) -> Any:  # noqa: ANN401 - plain data
    return list(value) if isinstance(value, tuple | list) else value


def as_text(name: str, value: Any) -> str:  # noqa: ANN401 - plain data
    """Return a property's value as in a settings file; ``-`` for none."""
    if value is None or value in ([], ()):
        return "-"
    if name in _TIMES:
        return format_duration(value)
    if name == "cluster_by":
        size = value.get("run_size")
        more = f", run_size {format_size(size)}" if size else ""
        return f"{value.get('method', 'range')}({', '.join(value['columns'])}){more}"
    if name == "holds":
        return ", ".join(hold["name"] for hold in value)
    return ", ".join(value) if isinstance(value, list | tuple) else str(value)


def put_within(settings: TableSettings, said: int | None = None) -> int:
    """Return how long a log file that was read may still be published, ms: half of the grace.

    Another process may have published it too; if it was folded and deleted since, it must not
    reappear.

    Args:
        settings: their grace counts if the table states none.
        said: ``cleanup.grace`` of the table, ms.
    """
    return (settings.cleanup.grace if said is None else said) // 2


def in_force(
    settings: TableSettings, table: Properties | None, *, any_key: bool = False
) -> TableSettings:
    """Return the settings with the table's own properties in place of theirs.

    Args:
        settings: the caller's settings.
        table: the properties in force; None for a table that has none yet.
        any_key: accept settings with another key, which are overridden too.

    Raises:
        PropertiesDifferError: the settings name another key or version.
        SettingsError: other settings are not compatible with the table's properties.
    """
    if table is None or table == from_settings(settings):
        return settings
    if not any_key:
        _refuse_other_identity(settings, table)
    values: dict[str, Any] = {
        "append": settings.append.model_copy(update={"ttl": table.append_ttl, "once": table.once}),
        "commit_ttl": table.commit_ttl,
        "cleanup": settings.cleanup.model_copy(update={"grace": table.grace}),
        "orphan_grace": table.orphan_grace,
        "locking": table.locking,
        "primary_key": table.primary_key,
        "version": table.version,
        "deleted": table.deleted,
        "deleted_keep": table.deleted_keep,
        "partition_by": tuple(
            PartitionField.model_validate(_field(text)) for text in table.partition_by
        ),
        "partition": table.partition,
        "sort_by": _sort_fields(table),
        "cluster_by": table.cluster_by
        and ClusterSettings(**msgspec.structs.asdict(table.cluster_by)),
        "deletes": table.deletes,
        "statistics": table.statistics,
        "mirror": _mirrors(settings, table),
    }
    combined = settings.model_copy(update=values)
    try:
        combined.check_together()
    except (ValueError, ValidationError) as error:
        raise SettingsError(
            f"the settings of table {settings.name} contradict the table's properties: {error}",
            next_step="see `firnline properties`, and change the settings or apply them",
        ) from None
    return combined


def _mirrors(settings: TableSettings, table: Properties) -> tuple[Mirror, ...]:
    """Return the table's mirrors, each with the settings' options for it."""
    given = {each.name: each for each in settings.mirror}
    return tuple(given.get(name) or Mirror.model_validate(name) for name in table.mirrors)


def _refuse_other_identity(settings: TableSettings, table: Properties) -> None:
    other = next((d for d in differences(settings, table) if d.name in IDENTITY), None)
    if other is not None:
        raise PropertiesDifferError(
            f"the settings of table {settings.name} say {other.name}: {other.wanted}, and the "
            f"table itself says {other.table}: which row of a key wins would depend on who "
            "merges or reads",
            next_step="correct the settings, or change the table with `firnline properties apply`",
        )


def _sort_fields(table: Properties) -> tuple[SortField, ...]:
    return tuple(_sort_field(text) for text in table.sort_by)


def sort_order(settings: TableSettings, records: Sequence[PropertiesRecord]) -> Order:
    """Return the order of new parts: the table's own, or the settings' if it has no properties."""
    stated_by_table = current(records)
    return order_of(settings.sort_by if stated_by_table is None else _sort_fields(stated_by_table))


def current(records: Sequence[PropertiesRecord]) -> Properties | None:
    """Return the properties in force; None if the table states none.

    If concurrent first appends of a table disagree, the earliest counts here. Before that matters,
    the first committer reads the table's birth record (docs/format.md).
    """
    if not records:
        return None
    newest = max(record.seq for record in records)
    return min((r for r in records if r.seq == newest), key=lambda r: (r.t, r.identity)).values


def disagree(records: Sequence[PropertiesRecord]) -> bool:
    """Return True if concurrent first appends of the table state different properties."""
    return len({r.identity for r in records}) > 1 and not any(r.seq for r in records)


@dataclass(frozen=True, slots=True)
class Waits:
    """The times to live of running operations, in ms, that deletions have to respect."""

    append_ttl: int
    commit_ttl: int
    grace: int
    orphan_grace: int
    once: int
    """``append.once``."""

    @property
    def late_append(self) -> int:
        """Time after which a delete record hides no row of an append that began before it, ms."""
        return self.append_ttl + self.grace

    @property
    def forgotten(self) -> int:
        """Time after which the key of an append need not be known any more, ms.

        With the grace for a clock that is ahead: a machine's date decides.
        """
        return self.once + self.grace

    @property
    def orphan_age(self) -> int:
        """Age at which a sweep takes an orphan unless it is told another one, ms.

        More than that of any work in progress, and never less than ``LEAST_ORPHAN_MS``.
        """
        longest = max(self.append_ttl, self.commit_ttl)
        return max(self.orphan_grace, longest + 1, LEAST_ORPHAN_MS)

    @property
    def ended(self) -> int:
        """Time after which an operation has ended that began before a transaction was there, ms.

        With the grace for a clock that is ahead: its machine's date decides (``log.fence``).
        """
        return max(self.append_ttl, self.commit_ttl) + self.grace


def waits(records: Sequence[PropertiesRecord], settings: TableSettings, now_ms: int) -> Waits:
    """Return the longest times to live that a running operation may have.

    Args:
        records: properties records of the snapshot.
        settings: the settings in force.
        now_ms: wall clock; 0 to include all earlier records.
    """
    stated_values = [record.values for record in needed(records, now_ms)]
    return Waits(
        append_ttl=max([settings.append.ttl, *(v.append_ttl for v in stated_values)]),
        commit_ttl=max([settings.commit_ttl, *(v.commit_ttl for v in stated_values)]),
        grace=max([settings.cleanup.grace, *(v.grace for v in stated_values)]),
        orphan_grace=max([settings.orphan_grace, *(v.orphan_grace for v in stated_values)]),
        once=max([settings.append.once, *(v.once for v in stated_values)]),
    )


def lengthened(settings: TableSettings, others: Waits) -> TableSettings:
    """Return the settings with the longest times to live of running operations."""
    values: dict[str, Any] = {
        "append": settings.append.model_copy(update={"ttl": others.append_ttl}),
        "commit_ttl": others.commit_ttl,
        "cleanup": settings.cleanup.model_copy(update={"grace": others.grace}),
        "orphan_grace": others.orphan_grace,
    }
    return settings.model_copy(update=values)


def needed(records: Sequence[PropertiesRecord], now_ms: int) -> tuple[PropertiesRecord, ...]:
    """Return the records in force and those that a running operation may have begun with.

    An operation with an older record began before the next one was visible. From then, an append
    lands within its ``append.ttl``, a commit within ``commit_ttl``; readers and publishers have the
    grace in addition (docs/guarantees.md, W4).
    """
    newest = max((record.seq for record in records), default=0)
    return tuple(
        record
        for record in records
        if record.seq == newest or now_ms <= _superseded_at(record, records) + _longest(record)
    )


def _longest(record: PropertiesRecord) -> int:
    values = record.values
    return max(values.append_ttl, values.commit_ttl) + values.grace


def _superseded_at(record: PropertiesRecord, records: Iterable[PropertiesRecord]) -> int:
    """Return when the next record was visible, unix ms, by the store's clock if that is known."""
    later = [r for r in records if r.seq > record.seq]
    after = min(later, key=lambda r: r.seq)
    return after.t if after.seen is None else after.seen
