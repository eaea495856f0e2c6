"""A table whose section has mistakes: what is known of it all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import ValidationError

from firnline.errors import SettingsError, UsageError
from firnline.paths import Root
from firnline.settings.cron import FLEET
from firnline.settings.dags import SECTIONS
from firnline.settings.document import expand
from firnline.settings.notifiers import AlertSettings
from firnline.settings.sections import ALL_OPERATIONS, OWN_DAGS, Operation


@dataclass(frozen=True, slots=True)
class BrokenTable:
    """A table whose section has mistakes."""

    name: str
    error: SettingsError
    """All of its mistakes, with the file and the fields."""
    given: Mapping[Any, Any]
    """Its section with the defaults, as they stand in the file; empty if it is no mapping."""
    others: tuple[Mapping[Any, Any], ...] = ()
    """Its sections in further files, where one file may have it."""

    @property
    def root(self) -> str:
        """The first of its ``roots``."""
        return self.roots[0]

    @property
    def roots(self) -> tuple[str, ...]:
        """The root of each of its sections; empty for one that names none that can be."""
        return tuple(map(root_of, (self.given, *self.others)))

    @property
    def person(self) -> tuple[str, ...] | None:
        """The columns that its sections name as those of people; None: they do not say it right."""
        stated = [each.get("person") for each in (self.given, *self.others)]
        named = [each for each in stated if isinstance(each, list)]
        columns = [name for each in named for name in each]
        right = len(named) == len(stated) and all(isinstance(name, str) for name in columns)
        return tuple(dict.fromkeys(columns)) if right else None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations that it has a DAG for, as far as the section names them."""
        given = self.given.get("operations")
        named = given if isinstance(given, list) else ALL_OPERATIONS
        operations = tuple(each for each in ALL_OPERATIONS if each in named) or ALL_OPERATIONS
        return tuple(each for each in operations if each != "ttl" or "ttl" in self.given)

    @property
    def own_dags(self) -> tuple[Operation, ...]:
        """The operations that it has a DAG of its own for, at least one of them.

        In that DAG Airflow shows the mistakes.
        """
        asked, sections = self.given.get("own_dags"), SECTIONS.items()
        named = OWN_DAGS if asked == "all" else asked if isinstance(asked, list) else ()
        clocks = [each for each, key in sections if _has_clock(self.given.get(key))]
        own = tuple(
            each
            for each in self.operations
            if each in clocks or (each in named and (each != "import" or each in self.given))
        )
        return own or self.operations[:1]

    @property
    def alerts(self) -> AlertSettings:
        """Its alerts, as far as the section states them right."""
        try:
            return AlertSettings.model_validate(self.given.get("alerts") or {})
        except ValidationError:
            return AlertSettings()

    def open(self) -> NoReturn:
        """Refuse to open the table. Raises SettingsError."""
        raise self.error


def root_of(given: Mapping[Any, Any]) -> str:
    """Return the root that a section names, if one can be there; empty otherwise."""
    root = given.get("root")
    try:
        url = expand(root).rstrip("/") if isinstance(root, str) else ""
        if url:
            Root.parse(url)
    except (ValueError, UsageError):
        return ""
    return url


def _has_clock(section: object) -> bool:
    return isinstance(section, dict) and section.get("schedule", FLEET) != FLEET
