"""docs/settings-reference.md: one table for each section of the settings, from the models."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import AfterValidator, BaseModel, PlainSerializer
from pydantic.fields import FieldInfo

from firnline.properties.in_force import FIELDS, HARMLESS, IDENTITY
from firnline.settings.cron import check_schedule
from firnline.settings.erasure import ErasureSettings
from firnline.settings.fields import Bounds, PartitionField, SortField, check_column
from firnline.settings.fleet import FleetSettings, format_budget
from firnline.settings.mirrors import FORMATS, DeltaMirror, Mirror
from firnline.settings.model import TableSettings
from firnline.settings.sections import Operation, Section, fields_by_key
from firnline.units import format_duration, format_size
from tools.reference.markdown import code, prose, table

TABLE = "table"
"""Block of the settings that stand beside the sections."""
FLEET = "fleet"
"""Section of the settings file that is not of a table."""
_HEADER = ("setting", "type", "default", "bounds", "property", "meaning")
_NOT_WRITTEN = ("name",)
"""The key of the table in the file, not a setting below it."""
_ITEMS: dict[type[BaseModel], str] = {
    PartitionField: "partition field",
    SortField: "sort field",
    Mirror: "mirror",
    DeltaMirror: "delta",
}
"""Models of the items of a list, and below them; they have a short form, and a table each."""
_KINDS: dict[str, str] = {
    "root": "URL",
    "approvers": "list of Airflow users",
    "import.source": "URL or list of URLs",
    **dict.fromkeys(
        (f"{name}.schedule" for name in ("merge", "ttl", "cleanup", "verify")),
        "`fleet` or schedule",
    ),
    "fleet.quiet_hours": "list of hours",
    "erasure.requests": "URL",
}
"""Types of settings that the model holds as text."""


@dataclass(frozen=True)
class Setting:
    """One setting: a field of the models, and its dotted name in a settings file."""

    name: str
    field: FieldInfo

    @property
    def meaning(self) -> str:
        """Return the description of the field, else the docstring of its section; may be empty."""
        own = section_of(self.field.annotation)
        return self.field.description or (meaning_of(own) if own is not None else "")


@dataclass(frozen=True)
class Group:
    """A section: its dotted name, its meaning, and its settings without those of sections below."""

    name: str
    meaning: str
    settings: tuple[Setting, ...]


def groups() -> list[Group]:
    """Return all sections: the table itself, those below it, those of the fleet and of erasures."""
    table = _groups(TableSettings, "", meaning_of(TableSettings))
    fleet = _groups(FleetSettings, f"{FLEET}.", meaning_of(FleetSettings))
    return [*table, *fleet, *_groups(ErasureSettings, "erasure.", meaning_of(ErasureSettings))]


def _groups(model: type[BaseModel], prefix: str, meaning: str) -> Iterator[Group]:
    written = {k: f for k, f in fields_by_key(model).items() if k not in _NOT_WRITTEN or prefix}
    settings = [Setting(prefix + key, field) for key, field in written.items()]
    rows = tuple(s for s in settings if section_of(s.field.annotation) is None or _optional(s))
    yield Group(prefix.rstrip(".") or TABLE, meaning, rows)
    for setting in settings:
        below = section_of(setting.field.annotation)
        if below is not None:
            text = meaning_of(below) if _optional(setting) else setting.meaning
            yield from _groups(below, f"{setting.name}.", text)


def _optional(setting: Setting) -> bool:
    """Return True if the whole section may be null."""
    return type(None) in get_args(setting.field.annotation)


def item_groups() -> list[Group]:
    """Return the models of list items: the keys of a partition field, for example.

    Those of a mirror's format are named with it, since a table has settings of the same names.
    """
    return [
        Group(
            name,
            "",
            tuple(
                Setting(f"{name}." * (name in FORMATS) + key, field)
                for key, field in model.model_fields.items()
            ),
        )
        for model, name in _ITEMS.items()
    ]


def blocks() -> dict[str, str]:
    """Return the generated blocks of docs/settings-reference.md by name."""
    found = {g.name: f"{prose(g.meaning)}\n\n{_table(g, _HEADER)}" for g in groups()}
    short = ("key", "type", "default", "bounds", "meaning")
    return found | {group.name: _table(group, short) for group in item_groups()}


def _table(group: Group, header: tuple[str, ...]) -> str:
    rows = [_cells(setting, header) for setting in group.settings]
    used = [i for i, name in enumerate(header) if name == "meaning" or any(r[i] for r in rows)]
    return table([header[i] for i in used], [[row[i] for i in used] for row in rows])


def _cells(setting: Setting, header: tuple[str, ...]) -> list[str]:
    field = setting.field
    cells = {
        "type": kind(setting),
        "default": default(field),
        "bounds": bounds(field),
        "property": property_mark(setting.name),
        "meaning": prose(setting.meaning),
    }
    return [code(setting.name), *(cells[name] for name in header[1:])]


# --- types ----------------------------------------------------------------------------------------


def section_of(annotation: object) -> type[BaseModel] | None:
    """Return the section that an annotation holds, ``| None`` or not; None for other types."""
    bare, _ = _without_none(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, Section) else None


def meaning_of(model: type[BaseModel]) -> str:
    """Return the first paragraph of a model's docstring, as Markdown."""
    text = inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0]
    return text.replace("``", "`")


def _without_none(annotation: object) -> tuple[object, tuple[Any, ...]]:
    """Return an annotation without ``| None`` and ``Annotated``, and the metadata of the latter."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [each for each in get_args(annotation) if each is not type(None)]
        assert len(rest) == 1, annotation
        return _without_none(rest[0])
    if get_origin(annotation) is typing.Annotated:
        bare, *metadata = get_args(annotation)
        return bare, tuple(metadata)
    return annotation, ()


def _parts(field: FieldInfo) -> tuple[object, tuple[Any, ...]]:
    bare, metadata = _without_none(field.annotation)
    return bare, (*field.metadata, *metadata)


def kind(setting: Setting) -> str:
    """Return the type of a setting in the words of a settings file."""
    if setting.name in _KINDS:
        return _KINDS[setting.name]
    bare, metadata = _parts(setting.field)
    section = section_of(bare)
    if section is None:
        return _kind(bare, metadata)
    if default(setting.field) == code("true"):
        return "boolean or section"
    listed = "_from_list" in vars(section)
    return "list of columns, or section" if listed else "section"


def _kind(bare: object, metadata: tuple[Any, ...]) -> str:
    known = _by_validator(metadata)
    if known:
        return known
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(code(value) for value in get_args(bare))
    if get_origin(bare) is tuple:
        return f"list of {_plural(get_args(bare)[0])}"
    if get_origin(bare) is dict:
        return "mapping"
    return {int: "integer", float: "number", str: "string", bool: "boolean"}[_as_type(bare)]


def _as_type(bare: object) -> type:
    assert isinstance(bare, type), bare
    return bare


def _by_validator(metadata: tuple[Any, ...]) -> str:
    """Return the type that the validators of a field speak of; empty for none."""
    words: Mapping[object, str] = {
        format_duration: "duration",
        format_size: "size",
        check_schedule: "schedule",
        check_column: "column",
        format_budget: "size a day",
    }
    for each in metadata:
        if isinstance(each, PlainSerializer | AfterValidator) and not isinstance(each.func, Bounds):
            word = words.get(each.func)
            if word:
                return word
    return ""


def _plural(item: object) -> str:
    bare, metadata = _without_none(item)
    if bare == Operation:
        return "operations"
    if isinstance(bare, type) and bare in _ITEMS:
        return f"{_ITEMS[bare]}s"
    return f"{_kind(bare, metadata)}s"


# --- defaults, bounds, properties -----------------------------------------------------------------


def default(field: FieldInfo) -> str:
    """Return the default as one writes it in a settings file."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    bare, metadata = _parts(field)
    shows = [each.func for each in metadata if isinstance(each, PlainSerializer)]
    if value is None:
        return code("null")
    if isinstance(value, Section):
        return code("true")  # a section that `false` switches off
    if isinstance(value, tuple) and value:
        assert bare == tuple[Operation, ...], field
        return "all"
    if shows:
        return code(format_duration(value) if shows[0] is format_duration else format_size(value))
    return code(_yaml(value))


def _yaml(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"' if value.startswith("@") else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:f}".rstrip("0").rstrip(".")  # not 1e-05
    return "[]" if value == () else str(value)


def bounds(field: FieldInfo) -> str:
    """Return the least and the largest value; empty without any."""
    _, metadata = _parts(field)
    for each in metadata:
        if isinstance(each, AfterValidator) and isinstance(each.func, Bounds):
            return _between(each.func.least, each.func.most)
    least = next((each.ge for each in metadata if isinstance(each, Ge)), None)
    most = next((each.le for each in metadata if isinstance(each, Le)), None)
    return _between(*(None if each is None else _yaml(each) for each in (least, most)))


def _between(least: str | None, most: str | None) -> str:
    if least is None:
        assert most is None
        return ""
    return f"at least {code(least)}" if most is None else f"{code(least)} to {code(most)}"


def property_mark(name: str) -> str:
    """Return how a property of the table itself follows the settings; empty for other settings."""
    found = next((each for each in FIELDS if name == each or name.startswith(f"{each}.")), None)
    if found is None:
        return ""
    if found in IDENTITY:
        return "refused"
    return "automatic" if found in HARMLESS else "explicit"
