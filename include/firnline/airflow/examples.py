"""Examples for the forms of a table's own DAGs, from its settings; no request is sent."""

from __future__ import annotations

from collections.abc import Mapping

from firnline.operations.fields import Example
from firnline.paths import quote_value
from firnline.settings.fields import TIME_TRANSFORMS, PartitionField
from firnline.settings.load import TableSettings
from firnline.types.sql import quote_field

_TIMES = {"year": "2024", "month": "2024-*", "day": "2024-03-*", "hour": "2024-03-05-*"}


def examples_of(table: TableSettings) -> Mapping[Example, str]:
    """Return examples that fit the table; none of columns if its settings name no column."""
    sorts, levels = table.sort_by, table.partition_by
    names = [*(each.column for each in sorts), *(each.column for each in levels)]
    names += table.primary_key
    found: dict[Example, str] = {"glob": _glob(table.partition_by)}
    if names:
        column = quote_field(names[0])
        found["condition"] = f"{column} is not null"
        found["query"] = f"select * from _rows where {column} is not null"  # noqa: S608 - shown only
    return found


def _glob(fields: tuple[PartitionField, ...]) -> str:
    """Return a glob that selects by the first time in the path; ``*`` also spans ``/``."""
    levels = []
    for field in fields:
        value = _TIMES.get(field.transform, "*")
        levels.append(f"{quote_value(field.label)}={value}")
        if field.transform in TIME_TRANSFORMS:
            break
    glob = "/".join(levels) or "*"
    return glob if glob.endswith("*") or len(levels) == len(fields) else f"{glob}/*"
