"""The keys of an erase: checked, counted, and written where kernels read them."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import UsageError
from firnline.kernel.staging import own_folder
from firnline.kernel.task import KeyFile
from firnline.operations.delete.plan import KeyColumn, comparison
from firnline.parquet.arrow_versions import refuse_changed
from firnline.predicate import tree as predicate
from firnline.table import Table
from firnline.types.arrow import parse_type
from firnline.types.schema import normalise
from firnline.types.values import Scalar, canonical
from firnline.units import about_size, counted

MAX_KEYS = 5_000_000
"""Maximum keys of one erase: the log holds each until its delete record has done its work, and
every reader fetches it until then (8 to 40 bytes each)."""
MAX_KEY_BYTES = 256 * 2**20
"""Maximum characters of all texts among the keys: the same log holds them."""
_WHOLE = frozenset(f"{sign}{name}" for sign in ("", "U") for name in
                  ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"))  # fmt: skip
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_INEXACT = ("FLOAT", "DOUBLE", "HUGEINT", "UHUGEINT")


class NoKeyError(UsageError):
    """None of the given keys is one for this table."""


@dataclass(frozen=True, slots=True)
class KeySet:
    """Distinct keys, sorted, each value in the canonical form of its column."""

    columns: tuple[str, ...]
    """As the table spells them."""
    types: tuple[str, ...]
    keys: tuple[tuple[Scalar, ...], ...]

    def digest(self, secret: str) -> str:
        """HMAC-SHA256 of the key set, 64 hex digits; without a secret its SHA-256, as of version 1.

        Over one line of JSON with the columns and one for each key, in order of their values.
        """
        lines = [msgspec.json.encode(self.columns), *map(msgspec.json.encode, self.keys)]
        text = b"\n".join(lines)
        if not secret:
            return hashlib.sha256(text).hexdigest()
        return hmac.new(bytes.fromhex(secret), text, hashlib.sha256).hexdigest()

    def planned(self) -> tuple[KeyColumn, ...]:
        """For the planner: the values of each column by themselves."""
        return tuple(
            KeyColumn.of(name, kind, [key[place] for key in self.keys])
            for place, (name, kind) in enumerate(zip(self.columns, self.types, strict=True))
        )

    def predicates(self) -> Iterator[msgspec.Raw]:
        """Yield predicates of delete records that together match exactly the rows of the keys."""
        size = len(self.columns)
        most = predicate.MAX_NODES - 1 if size == 1 else (predicate.MAX_NODES - 1) // (1 + size)
        for start in range(0, len(self.keys), most):
            chunk = self.keys[start : start + most]
            yield msgspec.Raw(predicate.to_json(self._predicate(chunk)))

    def _predicate(self, keys: Sequence[tuple[Scalar, ...]]) -> predicate.Predicate:
        if len(self.columns) == 1:
            return predicate.In(self.columns[0], tuple(key[0] for key in keys))
        return predicate.Or(
            tuple(
                predicate.And(
                    tuple(map(predicate.Equal, self.columns, key)),
                )
                for key in keys
            )
        )

    def upload(self, table: Table, key: str) -> KeyFile:
        """Write the keys as one Parquet object with the table's column names and types.

        One PUT (more above 16 MiB). The caller deletes the object again.
        """
        columns = [
            _array(kind, [values[place] for values in self.keys])
            for place, kind in enumerate(self.types)
        ]
        rows = pa.table(dict(zip(self.columns, columns, strict=True)))
        refuse_changed(rows.schema)
        with own_folder() as folder:
            path = folder / "keys.parquet"
            pq.write_table(rows, path, compression="zstd")
            table.store.put_file(key, path)
            return KeyFile(key=key, bytes=path.stat().st_size, columns=self.columns)


def key_set(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    schema: Mapping[str, str],
    where: str,
    *,
    partial: bool = False,
) -> KeySet:
    """Check keys against the table's columns.

    Args:
        columns: names of key columns.
        rows: one value per column each.
        schema: the table's, column -> SQL type.
        where: what the keys come from, for errors.
        partial: a row without a value in one of the columns is no key, and no mistake.

    Raises:
        NoKeyError: there is none.
        UsageError: a column that is not there, twice, or of a type whose values are not exact, a
            value that is missing or that its column cannot hold. No text holds a value.
    """
    names = _resolve(columns, schema)
    types = tuple(normalise(schema[name]) for name in names)
    keys: set[tuple[Scalar, ...]] = set()
    held = 0
    for key in _canonical(names, types, rows, where, partial):
        if key in keys:
            continue
        keys.add(key)
        held += sum(len(value) for value in key if isinstance(value, str))
        if len(keys) > MAX_KEYS:
            raise too_many(where)
        if held > MAX_KEY_BYTES:
            raise too_large(where)
    if not keys:
        raise NoKeyError(f"{where} has no key", next_step="give at least one key")
    return KeySet(names, types, tuple(sorted(keys)))


def too_many(where: str) -> UsageError:
    """Return the error for more keys than one erase takes."""
    return UsageError(
        f"{where} has more than {MAX_KEYS:,} keys", next_step="erase them in several runs"
    )


def too_large(where: str) -> UsageError:
    """Return the error for keys whose texts are longer than one erase takes."""
    return UsageError(
        f"the keys of {where} take more than {about_size(MAX_KEY_BYTES)}",
        next_step="erase them in several runs, or by a column with shorter values",
    )


def _resolve(columns: Sequence[str], schema: Mapping[str, str]) -> tuple[str, ...]:
    if not columns:
        raise UsageError("an erase needs a key column", next_step="name at least one column")
    # IsNull is what bind takes without looking at a literal.
    bound = [predicate.bind(predicate.IsNull(name), schema) for name in columns]
    names = tuple(node.column for node in bound if isinstance(node, predicate.IsNull))
    for name in names:
        kind = normalise(schema[name])
        if names.count(name) > 1:
            raise UsageError(f"column {name!r} is named twice", next_step="name it once")
        if kind in _INEXACT:
            raise UsageError(
                f"column {name!r} is {kind}, whose values are not exact",
                next_step="erase by a column of whole numbers, texts, dates, times or UUIDs",
            )
        comparison(name, kind)
    return names


def _canonical(
    names: Sequence[str],
    types: Sequence[str],
    rows: Iterable[Sequence[object]],
    where: str,
    partial: bool,
) -> Iterator[tuple[Scalar, ...]]:
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise UsageError(
                f"key {number} of {where} has {counted(len(row), 'value')} "
                f"for {counted(len(names), 'column')}",
                next_step="give one value per column",
            )
        if partial and None in row:
            continue
        yield tuple(
            _fitting(name, kind, value, f"key {number} of {where}")
            for name, kind, value in zip(names, types, row, strict=True)
        )


def _fitting(name: str, kind: str, value: object, place: str) -> Scalar:
    try:
        return _value(kind, value)
    except ValueError:
        # Not the value itself: an error ends up in logs, and keys are personal data.
        raise UsageError(
            f"{place} is missing or nothing that column {name} ({kind}) can hold",
            next_step="correct it; no row was touched",
        ) from None


def _value(kind: str, value: object) -> Scalar:
    if value is None:
        raise ValueError("null")
    if kind == "BOOLEAN" and isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if isinstance(value, str) and not _is_spelled(kind, value):
        raise ValueError("not as a number is written")
    return canonical(kind, value)


def _is_spelled(kind: str, text: str) -> bool:
    """Return False for a text that is not how a number is written: ``1e1`` may be a name."""
    if kind in _WHOLE:
        return _INTEGER.fullmatch(text) is not None
    return not kind.startswith("DECIMAL") or _NUMBER.fullmatch(text) is not None


def _array(kind: str, values: list[Scalar]) -> pa.Array:
    """Return canonical values in the Arrow type that parts have."""
    target = parse_type(kind)
    if kind == "UUID":
        return target.wrap_array(pa.array([UUID(str(v)).bytes for v in values], pa.binary(16)))
    if pa.types.is_decimal(target):
        return pa.array([Decimal(str(v)) for v in values], target)
    if pa.types.is_temporal(target):
        return pa.array(values, pa.string()).cast(target)
    return pa.array(values, target)
