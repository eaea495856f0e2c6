"""Looks for the notifiers that a settings file names, for ``firnline settings check``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from firnline.errors import SettingsError

if TYPE_CHECKING:
    from firnline.settings.load import Settings


def notes_on_notifiers(settings: Settings) -> list[str]:
    """Look for the notifiers of all tables; return a sentence for each that only Airflow has.

    Raises SettingsError: Airflow is installed here, and has no such notifier.
    """
    notes = []
    named = [(table.name, table.alerts.notifier) for table in settings.tables.values()]
    tables_of: dict[str, list[str]] = {}
    for name, notifier in (*named, ("fleet", settings.fleet.alerts.notifier)):
        if notifier is not None:
            tables_of.setdefault(notifier, []).append(name)
    for path, tables in tables_of.items():
        why = _missing(path)
        if why is None:
            continue
        where = f"the notifier {path} of {', '.join(tables)}"
        if find_spec("airflow") is not None:
            raise SettingsError(
                f"{settings.path}: {where} cannot be imported: {why}",
                next_step="correct alerts.notifier, or install its package",
            )
        notes.append(
            f"{where} was not looked for: Airflow is not installed here. "
            f"`firnline alerts test {tables[0]}` calls it where it is"
        )
    return notes


def _missing(path: str) -> str | None:
    """Return why a dotted path cannot be imported; None if it can."""
    module, _, name = path.rpartition(".")
    try:
        loaded = import_module(module)
    except Exception as error:  # noqa: BLE001 - whatever the module of somebody else raises
        return f"{type(error).__name__}: {error}"
    return None if hasattr(loaded, name) else f"{module} has no {name}"
