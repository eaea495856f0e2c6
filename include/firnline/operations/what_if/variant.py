"""Other settings for a play: values by dotted names, checked as those of a settings file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from firnline.errors import SettingsError, UsageError
from firnline.properties.in_force import from_settings, in_force
from firnline.properties.record import Properties
from firnline.settings.document import parse_yaml
from firnline.settings.load import TableSettings
from firnline.settings.mistakes import describe

PLAYED = ("merge", "cleanup", "ttl", "sort_by", "cluster_by")
"""Settings, or sections of them, that change a play."""


def variant(
    own: TableSettings, stated: Properties | None, changes: Mapping[str, object]
) -> TableSettings:
    """Return the settings in force if some were others.

    Args:
        own: the caller's settings of the table.
        stated: properties of the table itself, which these changes override, too.
        changes: dotted name, ``merge.target_size``, -> value, or its text as in a settings file.

    Raises:
        UsageError: there is no such setting, its value is wrong, or a play does not depend on it.
        SettingsError: the settings contradict each other, or the table's properties.
    """
    plain: dict[str, Any] = own.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for name, value in changes.items():
        _put(plain, name.split("."), _value(name, value))
    try:
        changed = TableSettings.model_validate(plain)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        lines = [describe(own.name, mistake) for mistake in mistakes]
        raise UsageError(
            f"these are no settings of a table: {'; '.join(lines)}",
            next_step="correct the name or value; docs/settings-reference.md has all of them",
        ) from None
    for name in changes:
        if name.split(".")[0] not in PLAYED:
            raise UsageError(
                f"{name} changes nothing of what a play counts",
                next_step=f"set something of {', '.join(PLAYED)}",
            )
    return in_force(changed, None if stated is None else _overridden(stated, changed, changes))


def _put(plain: dict[str, Any], path: list[str], value: object) -> None:
    *sections, last = path
    for section in sections:
        inner = plain.get(section)
        plain[section] = dict(inner) if isinstance(inner, dict) else {}
        plain = plain[section]
    plain[last] = value


def _value(name: str, given: object) -> object:
    """Return what a settings file would have; what is no YAML, such as ``*/15 * * * *``, as it is.

    The settings judge it in any case.
    """
    if not isinstance(given, str):
        return given
    try:
        parsed = parse_yaml(Path(name), f"value: {given}".encode())
    except SettingsError:
        return given
    return parsed["value"] if parsed.keys() == {"value"} else given


def _overridden(
    stated: Properties, changed: TableSettings, changes: Mapping[str, object]
) -> Properties:
    """Return the table's properties with those that are among the changes."""
    wanted = from_settings(changed)
    names = {
        field.name
        for field in msgspec.structs.fields(Properties)
        for name in changes
        if f"{name}.".startswith(f"{field.encode_name}.") or field.encode_name.startswith(name)
    }
    values = {name: getattr(wanted, name) for name in names}
    return msgspec.structs.replace(stated, **values)
