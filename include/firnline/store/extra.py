"""Read the extra of an Airflow connection: no field is ignored that would change the access."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from firnline.errors import StoreAccessError


def read_extra(
    extra: Mapping[str, Any], conn_type: str, known: Collection[str], refused: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields that have a value, by their short names.

    Args:
        extra: of the connection; also with the old names ``extra__TYPE__field``.
        conn_type: type of the connection.
        known: names that the caller reads or that mean nothing for objects.
        refused: why a field that Airflow's hook knows cannot be honoured, by its name.

    Raises:
        StoreAccessError: a field is refused, or nobody knows it: read on without it, a misspelt
            field would silently be the access of another identity.
    """
    fields: dict[str, Any] = {}
    for name, value in extra.items():
        short = name.removeprefix(f"extra__{conn_type}__")
        # Under both names, the short one counts, as for Airflow's hooks.
        if value and (short == name or not extra.get(short)):
            fields[short] = value
    for name in fields:
        if name in refused:
            raise StoreAccessError(
                f"its field {name} cannot be honoured: {refused[name]}",
                next_step=f"remove {name} from the extra of the connection",
            )
        if name not in known:
            raise StoreAccessError(
                f"its field {name} is unknown",
                next_step=f"correct or remove it; the fields are {', '.join(sorted(known))}",
            )
    return fields


def text_field(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field that has to be text. Raises StoreAccessError without its value."""
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value
    raise StoreAccessError(f"its field {name} is not text", next_step=f"write {name} as a string")
