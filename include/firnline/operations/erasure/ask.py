"""Take a request of erasure: its keys go into the folder, its clock starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal, cast

import msgspec

from firnline.commit.base import read_base
from firnline.errors import FirnlineError, UsageError, some
from firnline.log.txn_file import RunIdentity
from firnline.operations.asked import file_digest
from firnline.operations.at_once import at_once
from firnline.operations.erase.key_files import (
    batches_of,
    check_asked,
    is_parquet,
    other_separator,
    refuse_nested,
    refuse_other_endings,
    single_columns,
)
from firnline.operations.erase.keys import MAX_KEYS, too_many
from firnline.operations.erase.spaces import spaced, without_spaces
from firnline.operations.erasure.look import TableLook
from firnline.operations.erasure.record import Request
from firnline.operations.erasure.run import People
from firnline.operations.runner import Report
from firnline.rows.source import require_file
from firnline.settings.load import Settings, TableSettings
from firnline.state.health import require_table
from firnline.types.sql import fold_name
from firnline.units import about_size

MOST_BYTES = 512 * 2**20
"""Bytes of a file of keys at most: it is held in memory once."""


class AskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as somebody hands it in."""

    keys: str
    """Path of a file, CSV or Parquet, with columns named as those of ``person``."""
    received_ms: int | None = None
    """Unix ms; None: now."""
    due_ms: int | None = None
    """Unix ms; None: ``erasure.within`` after it was received."""
    without: tuple[str, ...] = ()
    """Tables to leave out."""
    reference: str = ""
    """Of the request in another system."""


class AskReport(Report, frozen=True, kw_only=True):
    """A request that was taken."""

    request: Request
    secret: str
    """With it and the file of keys anybody can show that the certificates are of this request. It
    is told here and stored nowhere."""
    tables: tuple[str, ...]
    """From which it will be erased."""
    unstated: tuple[str, ...]
    """Tables of which nobody has said whether they have rows of people."""
    unread: tuple[str, ...] = ()
    """Tables that could not be read, or whose settings have mistakes, each with the reason: whether
    the keys fit them is unknown. Of settings that do not read the file."""
    spaced: dict[str, int] = {}
    """Values of Parquet that begin or end with white space or an invisible character, by column: no
    row without it matches them."""


def ask(people: People, options: AskOptions, run: RunIdentity) -> AskReport:
    """Take a request. Requests: those of ``read_base`` for each table it is for, and 2 PUT.

    A table whose settings have mistakes is one of them unless they say that it has no people: it
    may leave the settings before it is erased, and the request has to know of it then.

    Args:
        people: all tables, and the folder of requests.
        options: the request.
        run: who takes it.

    Raises:
        UsageError: the file does not read or has no key, or one of CSV has what nobody sees at an
            end (``spaces``); a time that is none; tables whose columns it lacks or cannot hold its
            keys, unless they are left out.
        StoreError: it is unknown whether it was taken.
    """
    folder, tables = people.folder, list(people.settings.tables.values())
    now = folder.clock.now_ms()
    received = now if options.received_ms is None else options.received_ms
    within = people.settings.erasure.within
    due = received + within if options.due_ms is None else options.due_ms
    if received > now or due <= received:
        raise UsageError(
            "a request is due before it was received, or was received in the future",
            next_step="correct the times; they are in UTC",
        )
    path = Path(options.keys)
    _refuse_unknown(people.settings, options.without)
    asked = [each for each in tables if each.person and each.name not in options.without]
    broken = [each for each in people.broken if each.table not in options.without]
    columns = (*(each.person or () for each in asked), *(each.columns for each in broken))
    keys = _read(path, {fold_name(name) for each in columns for name in each})
    _refuse_lacking(asked, keys.columns, path)
    if not asked and not broken:
        raise _no_table()
    mistaken = tuple(f"{each.table}: {each.unread}" for each in broken)
    unread = (*_unread(people, asked, path), *mistaken)
    secret, data = folder.ids.secret(), path.read_bytes()
    request = Request(
        id=folder.ids.uuid7(now),
        received_ms=received,
        due_ms=due,
        columns=keys.columns,
        keys=keys.rows,
        digest=file_digest(secret, [data]),
        ending=keys.ending,
        taken_ms=now,
        taken_by=run,
        tables=(*(each.name for each in asked), *_named_tables(people.settings, broken)),
        without=options.without,
        reference=options.reference,
    )
    folder.take(request, data)
    return AskReport(
        request=request,
        secret=secret,
        tables=request.tables,
        unstated=people.unstated,
        unread=unread,
        spaced=keys.spaced,
    )


def _unread(people: People, asked: Sequence[TableSettings], path: Path) -> tuple[str, ...]:
    """Return the tables that cannot be read. Raises UsageError: one reads, and the keys do not fit.

    A table that cannot be read holds up no request: the law's clock runs, and the run says it.
    """

    def one(settings: TableSettings) -> UsageError | str | None:
        name = settings.name
        try:
            table = people.opens(name)
            require_table(table)
            schema = read_base(table).snapshot.schema
        except FirnlineError as error:
            return f"{name}: {error.headline}; {error.next_step}"
        try:
            check_asked(path, settings.person or (), schema)
        except UsageError as error:
            return UsageError(
                f"table {name}: {error.message}",
                next_step=f"correct the file, or leave the table out with --without {name}",
            )
        return None

    found = at_once(asked, one, people.settings.fleet.concurrency)
    for each in found:
        if isinstance(each, UsageError):
            raise each
    return tuple(each for each in found if isinstance(each, str))


class _Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a file of keys."""

    ending: Literal["csv", "parquet"]
    rows: int
    columns: tuple[str, ...]
    """That have values."""
    spaced: dict[str, int]
    """As of ``AskReport``."""


def _read(path: Path, wanted: Collection[str]) -> _Keys:
    """Return what a file of keys holds; ``wanted`` are columns that identify a person, folded."""
    shown, ending = str(path), path.suffix.lower().removeprefix(".")
    refuse_other_endings(shown)
    require_file(path, shown)
    if path.stat().st_size > MOST_BYTES:
        raise UsageError(
            f"{shown} has more than {about_size(MOST_BYTES)}", next_step="split it into requests"
        )
    names = single_columns(path, shown)
    refuse_nested(path, shown, wanted)
    rows, values, spaces = 0, Counter[str](), Counter[str]()
    batches, told = batches_of(path, shown, names), wanted
    if not is_parquet(path):
        batches, told = without_spaces(batches, shown, wanted), frozenset[str]()
    for batch in batches:
        rows += batch.num_rows
        if rows > MAX_KEYS:
            raise too_many(shown)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            values[name] += len(column) - column.null_count
            spaces[name] += len(spaced(column)) if fold_name(name) in told else 0
    found = tuple(name for name, count in values.items() if count)
    if not found:
        raise UsageError(f"{shown} has no key", next_step="give at least one key")
    return _Keys(
        ending=cast("Literal['csv', 'parquet']", ending),
        rows=rows,
        columns=found,
        spaced={name: count for name, count in spaces.items() if count},
    )


def _named_tables(settings: Settings, broken: Sequence[TableLook]) -> Iterator[str]:
    """Yield the tables with mistakes; not the files, which are no tables once they read."""
    return (each.table for each in broken if each.table in settings.broken)


def _refuse_unknown(settings: Settings, without: Sequence[str]) -> None:
    unknown = sorted({*without} - {*settings.tables, *settings.broken})
    if unknown:
        raise UsageError(
            f"the settings have no table {some(unknown)}", next_step="correct --without"
        )


def _refuse_lacking(asked: Sequence[TableSettings], columns: Sequence[str], path: Path) -> None:
    have = {fold_name(name) for name in columns}
    lacking = [
        f"{table.name} ({', '.join(table.person or ())})"
        for table in asked
        if not {fold_name(name) for name in table.person or ()} <= have
    ]
    if lacking:
        raise other_separator(path, str(path)) or UsageError(
            f"{path} has no values for {some(lacking)}",
            next_step="add these columns, or leave tables out with --without NAME",
        )


def _no_table() -> UsageError:
    return UsageError(
        "no table of the settings names columns of a person",
        next_step="write `person: [customer_id]` into tables that have rows of people",
    )
