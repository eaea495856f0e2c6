"""What the footers of many Parquet objects say, read by ranged GETs, many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from firnline.errors import FirnlineError, ObjectNotFoundError
from firnline.parquet.part import PartMetadata
from firnline.store.base import Store
from firnline.store.transfer import each
from firnline.types.values import Stats

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_INT96 = "INT96"


class FooterTask(msgspec.Struct, frozen=True):
    """One object whose footer is wanted."""

    key: str
    bytes: int


class FooterWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for in every footer; travels to Spark tasks as JSON."""

    columns: dict[str, str] = {}
    """Types the table already has; see ``arrow_types.from_arrow``."""
    stats: tuple[str, ...] = ()
    """Columns whose bounds are wanted."""


class FooterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One footer, or why it does not read."""

    key: str
    bytes: int
    rows: int = 0
    columns: dict[str, str] = {}
    """Column -> SQL type."""
    stats: Stats = {}
    part: PartMetadata | None = None
    """What a writer of ours says in it."""
    error: str | None = None
    """Why it does not read, or cannot be a part."""
    next_step: str = ""
    gone: bool = False
    """There is no object."""


def read_facts(store: Store, task: FooterTask, wanted: FooterWanted) -> FooterFacts:
    """One footer. Requests: one ranged GET, two for a very wide table.

    It is parsed in another process, which a damaged one may end.

    Never raises for a fault of the object; StoreError when the store fails.
    """
    from firnline.parquet.footer_process import parse_elsewhere
    from firnline.parquet.io import read_tail

    try:
        tail = read_tail(store, task.key, task.bytes)
    except ObjectNotFoundError as error:
        return failed(task, error, gone=True)
    except FirnlineError as error:
        if error.retryable or error.exit_code != 1:
            raise
        return failed(task, error)
    return parse_elsewhere(task, wanted, tail)


def parse_here(task: FooterTask, wanted: FooterWanted, tail: bytes) -> FooterFacts:
    """The footer in the end of an object. Never raises for a fault of it, but may abort."""
    from firnline.parquet.io import UNREADABLE, parse_footer, unreadable

    try:
        footer = parse_footer(task.key, tail)
        try:
            return facts_of(task, footer, wanted)
        except UNREADABLE as error:
            raise unreadable(task.key, error) from None
    except FirnlineError as error:
        return failed(task, error)


def facts_of(task: FooterTask, footer: pq.FileMetaData, wanted: FooterWanted) -> FooterFacts:
    """A footer as plain data.

    Raises:
        PartUnreadableError: metadata of ours that does not read.
        PartSchemaError: columns that no part of a table can have.
    """
    from firnline.parquet.part import read_pairs
    from firnline.parquet.stats import from_footer
    from firnline.types.arrow import from_arrow

    return FooterFacts(
        key=task.key,
        bytes=task.bytes,
        rows=footer.num_rows,
        columns=from_arrow(arrow_schema(footer), wanted.columns),
        stats=from_footer(footer, wanted.stats),
        part=read_pairs(task.key, footer.metadata),
    )


def arrow_schema(footer: pq.FileMetaData) -> pa.Schema:
    """Columns of a footer. INT96 times (old Spark and Hive) are microseconds, as DuckDB has it."""
    import pyarrow as pa

    schema = footer.schema.to_arrow_schema()
    for index in range(footer.num_columns):
        leaf = footer.schema.column(index)
        if leaf.physical_type == _INT96 and leaf.path == leaf.name:
            place = schema.get_field_index(leaf.name)
            schema = schema.set(place, pa.field(leaf.name, pa.timestamp("us")))
    return schema


def many_facts(
    store: Store, tasks: Iterable[FooterTask], wanted: FooterWanted
) -> Iterator[FooterFacts]:
    """Footers of many objects, concurrently, in the order of the tasks; as ``read_facts``."""
    by_key: Mapping[str, FooterTask] = {task.key: task for task in tasks}
    yield from each(list(by_key), lambda key: read_facts(store, by_key[key], wanted))


def failed(task: FooterTask, error: FirnlineError, *, gone: bool = False) -> FooterFacts:
    """Why a footer cannot be told."""
    return FooterFacts(
        key=task.key, bytes=task.bytes, error=error.message, next_step=error.next_step, gone=gone
    )
