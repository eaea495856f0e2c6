"""Give a read to pyarrow as a dataset."""

from __future__ import annotations

import operator
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, fs

from firnline.errors import UsageError
from firnline.parquet.io import UNREADABLE
from firnline.predicate.tree import And, Equal, In, IsNull, Not, Or, Predicate, columns_of
from firnline.read.files import PartFiles, not_readable
from firnline.read.plan import ReadPlan
from firnline.store.base import Store
from firnline.types.arrow import parse_type, to_arrow
from firnline.types.sql import fold_name
from firnline.types.values import Scalar

_FOOTERS = 16
"""Number of footers read in parallel."""
_INSTEAD = "use arrow_reader(), duckdb() or polars(), which give the visible rows of any scan"
_UNITS = ("s", "ms", "us", "ns")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def open_dataset(plan: ReadPlan, store: Store) -> dataset.Dataset:
    """Open the parts as a dataset; see ``Scan.arrow_dataset``."""
    task = plan.task
    hidden = sum(part.hidden >= 0 for part in task.parts)
    if hidden:
        raise UsageError(
            f"deletes that wait for a merge hide rows of {hidden} of {len(task.parts)} parts, "
            "which a pyarrow dataset cannot express",
            next_step=f"{_INSTEAD}, or merge the table first",
        )
    renamed = sum(part.sources >= 0 for part in task.parts)
    if renamed:
        raise UsageError(
            f"{renamed} of {len(task.parts)} parts have columns from before a schema change, "
            "which a pyarrow dataset would look for under their new names",
            next_step=f"{_INSTEAD}, or merge the table first",
        )
    if task.primary_key:
        raise UsageError(
            "a pyarrow dataset cannot choose one row per primary key",
            next_step=f"{_INSTEAD}, or ask for every row with dedup=False",
        )
    return _filtered(plan, _dataset(plan, store))


def _dataset(plan: ReadPlan, store: Store) -> dataset.Dataset:
    task, files = plan.task, PartFiles(keep_failure=True)
    number = files.add(store)
    schema = to_arrow(dict(task.columns))
    form = dataset.ParquetFileFormat()
    where = fs.PyFileSystem(fs.FSSpecHandler(files))
    fragments = [
        form.make_fragment(files.url(number, part), filesystem=where) for part in task.parts
    ]
    with ThreadPoolExecutor(_FOOTERS, "firnline-footer") as pool:
        list(pool.map(lambda fragment: _check(fragment, schema, files), fragments))
    return dataset.FileSystemDataset(fragments, schema, form, where)


def _check(fragment: dataset.ParquetFileFragment, schema: pa.Schema, files: PartFiles) -> None:
    """Refuse columns that Arrow would silently read as null, or fail on while reading."""
    key = files.locate(fragment.path)[1]
    try:
        stored: pa.Schema = fragment.physical_schema
    except UNREADABLE as error:
        why = str(error).split("\n", 1)[0]
        raise files.take_failure() or not_readable(key, why) from None
    problem = misfit(stored, schema)
    if problem is not None:
        raise UsageError(f"part {key} {problem}: Arrow would not read it", next_step=_INSTEAD)


def misfit(stored: pa.Schema, schema: pa.Schema) -> str | None:
    """Return what Arrow would silently read as null in a part, or fail on; None if nothing."""
    spelled = {fold_name(name): name for name in stored.names}
    for field in schema:
        name = spelled.get(fold_name(field.name))
        if name is not None and name != field.name:
            return f"has column {name!r}, which the table spells {field.name!r}"
        if name is not None and not _fits(stored.field(name).type, field.type):
            return f"has column {name!r} as {stored.field(name).type}, and not {field.type}"
    return None


def _fits(stored: pa.DataType, asked: pa.DataType) -> bool:
    """Return True if Arrow converts every value: to the same type, or a wider one."""
    if stored == asked:
        return True
    for kind in (pa.types.is_signed_integer, pa.types.is_unsigned_integer, pa.types.is_floating):
        if kind(stored) and kind(asked):
            return bool(stored.bit_width <= asked.bit_width)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(asked):
        return bool(stored.tz == asked.tz and _UNITS.index(stored.unit) <= _UNITS.index(asked.unit))
    return _fits_inside(stored, asked)


def _fits_inside(stored: pa.DataType, asked: pa.DataType) -> bool:
    """Return True for lists, maps and structs of what fits; a struct may lack fields."""
    if pa.types.is_struct(stored) and pa.types.is_struct(asked):
        kinds = {field.name: field.type for field in asked}
        return all(field.name in kinds and _fits(field.type, kinds[field.name]) for field in stored)
    if pa.types.is_map(stored) and pa.types.is_map(asked):
        same_keys = stored.key_type == asked.key_type
        return bool(same_keys and _fits(stored.item_type, asked.item_type))
    if pa.types.is_list(stored) and pa.types.is_list(asked):
        return _fits(stored.value_type, asked.value_type)
    return bool(pa.types.is_nested(stored) and stored.equals(asked))


def _filtered(plan: ReadPlan, parts: dataset.Dataset) -> dataset.Dataset:
    if plan.where is None:
        return parts
    kinds = dict(plan.task.needed)
    missing = [name for name in columns_of(plan.where) if name not in parts.schema.names]
    if missing:
        raise UsageError(
            f"where uses column {missing[0]!r}, which is not among the selected columns, and "
            "a pyarrow dataset filters by its own columns",
            next_step="select that column too, or use arrow_reader()",
        )
    for name in columns_of(plan.where):
        if pa.types.is_floating(parts.schema.field(name).type):
            raise UsageError(
                f"where compares column {name!r}, and in Arrow NaN is not greater than any number, "
                "as it is in SQL",
                next_step="use arrow_reader() with this where",
            )
    return parts.filter(_expression(plan.where, kinds))


def _expression(tree: Predicate, kinds: dict[str, str]) -> pc.Expression:
    """Return the predicate as an Arrow expression, which has three-valued logic too."""
    if isinstance(tree, And | Or):
        args = [_expression(arg, kinds) for arg in tree.args]
        joined = args[0]
        for arg in args[1:]:
            joined = joined & arg if isinstance(tree, And) else joined | arg
        return joined
    if isinstance(tree, Not):
        return ~_expression(tree.arg, kinds)
    field = pc.field(tree.column)
    if isinstance(tree, IsNull):
        return field.is_null()
    kind = parse_type(kinds[tree.column])
    if isinstance(tree, In):
        # Not isin: it returns false for a null, where SQL returns null.
        return _expression(Or(tuple(Equal(tree.column, v) for v in tree.values)), kinds)
    return _COMPARE[tree.op](field, _scalar(tree.value, kind))


def _scalar(value: Scalar, kind: pa.DataType) -> pa.Scalar:
    """Return a literal in its JSON form (``firnline.types.values``) as an Arrow scalar."""
    if isinstance(kind, pa.BaseExtensionType):
        raise UsageError(
            f"a pyarrow dataset cannot compare values of type {kind}",
            next_step="use arrow_reader() with this where",
        )
    if isinstance(value, str) and not pa.types.is_string(kind):
        if pa.types.is_decimal(kind):
            return pa.scalar(Decimal(value), kind)
        return pa.scalar(value).cast(kind)
    return pa.scalar(value, kind)
