"""Load the settings file ``tables.yaml``: ``defaults``, ``tables`` by name, and the ``fleet``.

A mistake in the section of one table takes out that table alone. One in what all tables share
(``defaults``, ``fleet``, the file itself) takes out the file.

Airflow reads it at every DAG parse: no network, no heavy import, and 1,000 tables within a second.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from firnline.errors import SettingsError, UsageError
from firnline.paths import Root, meant_url
from firnline.settings.cron import FLEET
from firnline.settings.dags import SECTIONS, own_dags
from firnline.settings.document import NAME_IT, expand, read_yaml, with_defaults
from firnline.settings.fields import PartitionField, SortField
from firnline.settings.fleet import FleetSettings
from firnline.settings.model import TABLE_NAME, TABLE_NAME_RULE, TableSettings, name_from
from firnline.settings.sections import (
    ALL_OPERATIONS,
    OWN_DAGS,
    AlertSettings,
    AppendSettings,
    BloomFilterSettings,
    CleanupSettings,
    ClusterSettings,
    MergeSettings,
    Operation,
    SparkSettings,
    TtlSettings,
)

__all__ = [
    "AppendSettings",
    "BrokenTable",
    "CleanupSettings",
    "ClusterSettings",
    "FleetSettings",
    "MergeSettings",
    "PartitionField",
    "Settings",
    "SortField",
    "SparkSettings",
    "TableSettings",
    "TtlSettings",
    "find_table",
    "load_settings",
    "settings_for_root",
    "settings_path",
]

_SHOWN = 20
"""Errors listed at most; more than that have one cause."""
_LONGEST = 400
"""Characters shown of one error: a wrong value may have megabytes."""
_EXPANDED = ("root", "connection_id")
_NEXT_STEP = "correct the file and run `firnline settings check`"


@dataclasses.dataclass(frozen=True, slots=True)
class BrokenTable:
    """A table whose section has mistakes."""

    name: str
    error: SettingsError
    """All of its mistakes, with the file and the fields."""
    given: Mapping[Any, Any]
    """Its section with the defaults, as they stand in the file; empty if it is no mapping."""

    @property
    def root(self) -> str:
        """Its root, if the section names one that can be; empty otherwise."""
        return _root_of(self.given)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations that it has a DAG for, as far as the section names them."""
        given = self.given.get("operations")
        named = given if isinstance(given, list) else ALL_OPERATIONS
        known = tuple(each for each in ALL_OPERATIONS if each in named) or ALL_OPERATIONS
        return tuple(each for each in known if each != "ttl" or "ttl" in self.given)

    @property
    def own_dags(self) -> tuple[Operation, ...]:
        """The operations that it has a DAG of its own for, at least one of them.

        In that DAG Airflow shows the mistakes.
        """
        asked, sections = self.given.get("own_dags"), SECTIONS.items()
        named = OWN_DAGS if asked == "all" else asked if isinstance(asked, list) else ()
        clocks = [each for each, key in sections if _has_clock(self.given.get(key))]
        own = tuple(each for each in self.operations if each in named or each in clocks)
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


@dataclasses.dataclass(frozen=True, slots=True)
class Stale:
    """The reason why settings of before stand in for a file."""

    error: SettingsError
    """All mistakes of the file, or why it does not read."""
    since_ms: int
    """When the file was changed last before the mistake came in, unix ms."""

    @property
    def sentence(self) -> str:
        """Return the sentence that says which settings are in force, and why."""
        at = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return f"the settings of {at} are in force, because {self.error}"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The content of a settings file."""

    path: Path
    tables: dict[str, TableSettings]
    fleet: FleetSettings = dataclasses.field(default_factory=FleetSettings)
    broken: dict[str, BrokenTable] = dataclasses.field(default_factory=dict)
    """Tables whose sections have mistakes; they are not among ``tables``."""
    stale: Stale | None = None
    """Set if these are not the settings of the file as it is now."""

    def table(self, name: str) -> TableSettings:
        """Return the settings of one table.

        Raises:
            UsageError: there is no such table; names those that there are.
            SettingsError: its section has mistakes.
        """
        self.refuse_broken(name)
        found = self.tables.get(name)
        if found is None:
            raise UsageError(
                f"no table {name!r} in {self.path}", next_step=_which(name, self.tables)
            )
        return found

    def refuse_broken(self, name: object) -> None:
        """Raise SettingsError for a table whose section has mistakes; others need not be there.

        ``name`` may be anything: the configuration of a run is what somebody typed.
        """
        if isinstance(name, str) and name in self.broken:
            raise self.broken[name].error


def _which(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3) or names[:10]
    if not close:
        return "add it under tables"
    more = ", …" if len(names) > len(close) else ""
    return f"use one of {', '.join(close)}{more}, add it there, or give a root URL"


def settings_path() -> Path:
    """Return the path of the settings file: $FIRNLINE_TABLES, else ``include/tables.yaml``.

    The latter is searched under the current folder, where ``tables.yaml`` itself comes next, under
    $AIRFLOW_HOME and beside the package.
    """
    named = os.environ.get("FIRNLINE_TABLES")
    if named:
        return Path(named)
    home, beside = os.environ.get("AIRFLOW_HOME"), Path(__file__).resolve().parents[2]
    folders = [*([Path(home, "include")] if home else []), beside]
    places = [*places_here(), *(folder / "tables.yaml" for folder in folders)]
    return next((place for place in places if place.is_file()), beside / "tables.yaml")


def places_here() -> tuple[Path, ...]:
    """Return where the settings file is searched under the current folder, in this order."""
    here = Path.cwd()
    return here / "include" / "tables.yaml", here / "tables.yaml"


def no_settings() -> bool:
    """Return True if the environment names no settings file, and the usual places have none."""
    return not os.environ.get("FIRNLINE_TABLES") and not settings_path().is_file()


def load_settings(path: Path | str | None = None, *, strict: bool = False) -> Settings:
    """Load and validate a settings file.

    Args:
        path: of the file; defaults to ``settings_path()``.
        strict: refuse the file if any table is ``broken``.

    Raises:
        SettingsError: lists every error with the file and the field's path in it.
    """
    where = settings_path() if path is None else Path(path)
    content = read_yaml(where, next_step=_correct_place(path, where))
    problems: list[str] = []
    defaults = _section(content, "defaults", problems)
    tables = _section(content, "tables", problems)
    problems += [
        f"{key}: is not a setting; allowed are defaults, tables and fleet"
        for key in content
        if key not in ("defaults", "tables", "fleet")
    ]
    fleet = _load_fleet(content, problems)
    found = list(_check_defaults(defaults))
    problems += found
    shared = {} if found else defaults
    loaded: dict[str, TableSettings] = {}
    mistakes: dict[str, list[str]] = {}
    for name, given in tables.items():
        try:
            loaded[name] = _load_table(name, given, shared)
        except _MistakesError as error:
            mistakes[str(name)] = error.lines
    sections = {str(name): section for name, section in tables.items()}
    roots = {name: table.root for name, table in loaded.items()}
    # That one of the two has another mistake does not make the other one safe.
    given = {name: _root_of(_given(sections[name], shared)) for name in mistakes}
    roots |= {name: root for name, root in given.items() if root}
    for name, line in _overlaps(roots):
        mistakes.setdefault(name, []).append(line)
    if problems or (strict and mistakes):
        raise _as_error(
            where, [*problems, *(line for lines in mistakes.values() for line in lines)]
        )
    broken = {
        name: BrokenTable(name, _as_error(where, lines), _given(sections[name], shared))
        for name, lines in mistakes.items()
    }
    kept = {name: _with_dags(t, fleet) for name, t in loaded.items() if name not in broken}
    return Settings(where, kept, fleet, broken)


def _with_dags(table: TableSettings, fleet: FleetSettings) -> TableSettings:
    """Return a table whose ``own_dags`` are all that it has, those for a schedule too."""
    return table.model_copy(update={"own_dags": own_dags(table, fleet)})


def _has_clock(section: object) -> bool:
    return isinstance(section, dict) and section.get("schedule", FLEET) != FLEET


def _root_of(given: Mapping[Any, Any]) -> str:
    root = given.get("root")
    try:
        found = expand(root).rstrip("/") if isinstance(root, str) else ""
        if found:
            Root.parse(found)
    except (ValueError, UsageError):
        return ""
    return found


def _given(section: object, defaults: dict[Any, Any]) -> Mapping[Any, Any]:
    return with_defaults(section, defaults) if isinstance(section, dict) else {}


def _correct_place(path: Path | str | None, where: Path) -> str:
    """Return the next step if the settings file cannot be read.

    Raises SettingsError if no file was named and none was found.
    """
    if path is not None:
        return "correct --settings"
    if os.environ.get("FIRNLINE_TABLES"):
        return "correct FIRNLINE_TABLES, which names it"
    if not where.exists():
        raise SettingsError(
            "there is no settings file: neither $FIRNLINE_TABLES nor include/tables.yaml here",
            next_step="`firnline init` writes one; or give the root URL of a table",
        )
    return NAME_IT


def _load_fleet(content: Mapping[Any, Any], problems: list[str]) -> FleetSettings:
    try:
        return FleetSettings.model_validate(_section(content, "fleet", problems))
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        problems += [_describe("fleet", mistake, FleetSettings) for mistake in mistakes]
        return FleetSettings()


def _section(content: Mapping[Any, Any], key: str, problems: list[str]) -> dict[Any, Any]:
    value = content.get(key)
    if value is None or isinstance(value, dict):
        return value or {}
    problems.append(f"{key}: must be a mapping")
    return {}


def _check_defaults(defaults: dict[Any, Any]) -> Iterator[str]:
    """Yield the errors of the defaults themselves, which are reported once, not for every table."""
    for key in ("name", "root"):
        if key in defaults:
            yield f"defaults.{key}: belongs to a table; move it there"
    own = {key: value for key, value in defaults.items() if key not in ("name", "root")}
    try:
        TableSettings.model_validate(_expanded({**own, "name": "x", "root": "memory://x"}))
    except ValidationError as error:
        for mistake in error.errors(include_url=False):
            # A conflict of two settings may be resolved by a table, so it is checked there.
            together = mistake["type"] == "value_error" and isinstance(mistake["input"], dict)
            if not together:
                yield _describe("defaults", mistake)
    except _FieldError as error:
        yield f"defaults.{error}"


class _MistakesError(Exception):
    """The mistakes of one table's section."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self.lines = list(lines)


def _load_table(name: object, given: object, defaults: dict[Any, Any]) -> TableSettings:
    """Return the settings of one table. Raises _MistakesError."""
    if not isinstance(name, str) or TABLE_NAME.fullmatch(name) is None:
        raise _MistakesError(
            f"tables.{name}: is not a table name; {TABLE_NAME_RULE}; write it in quotes when it "
            "could be a number or a date"
        )
    if not isinstance(given, dict):
        raise _MistakesError(f"tables.{name}: must be a mapping with at least a root")
    if "name" in given:
        raise _MistakesError(f"tables.{name}.name: is the key itself; remove it")
    try:
        merged = _expanded({**with_defaults(given, defaults), "name": name})
        return TableSettings.model_validate(merged)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        raise _MistakesError(*(_describe(f"tables.{name}", each) for each in mistakes)) from None
    except _FieldError as error:
        raise _MistakesError(f"tables.{name}.{error}") from None


class _FieldError(Exception):
    """An error of one field, which becomes an entry of the list of problems."""


def _expanded(table: dict[Any, Any]) -> dict[Any, Any]:
    for field in _EXPANDED:
        text = table.get(field)
        if isinstance(text, str) and "$" in text:
            try:
                table[field] = expand(text)
            except ValueError as error:
                raise _FieldError(f"{field}: {error}") from None
    if table.get("connection_id") == "":  # ${VAR:-} without a variable
        table["connection_id"] = None
    return table


def _describe(
    where: str,
    mistake: Any,  # noqa: ANN401 - a TypedDict of pydantic_core
    model: type[BaseModel] = TableSettings,
) -> str:
    """Return a line with the field's path in the file and the allowed values."""
    path = where
    for step in mistake["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    kind, message = mistake["type"], str(mistake["msg"])
    if kind == "value_error":
        return f"{path}: {mistake['ctx']['error']}"
    if kind == "extra_forbidden":
        return f"{path}: is not a setting{_suggestion(mistake['loc'], model)}"
    if kind == "missing":
        return f"{path}: is missing"
    value, shape = mistake["input"], _SHAPES.get(kind)
    # Items of lists may be texts: mappings are their longer form.
    is_text = kind == "string_type" or (shape == "a mapping" and path.endswith("]"))
    if is_text and isinstance(value, bool | int | float):
        return f"{path}: YAML reads this as {value!r}; put it in quotes"
    shown = f", not {value!r}" if isinstance(value, str | int | float | None) else ""
    must = f"must be {shape}" if shape else message.replace("Input should", "must")
    return f"{path}: {must}{shown}"


_SHAPES = {
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
"""What YAML calls the types of pydantic."""


def _suggestion(loc: tuple[int | str, ...], model: Any) -> str:  # noqa: ANN401 - walks down
    for step in loc[:-1]:
        field = getattr(model, "model_fields", {}).get(step)
        options = {"append": AppendSettings, "merge": MergeSettings, "cleanup": CleanupSettings}
        options |= {"ttl": TtlSettings, "spark": SparkSettings, "cluster_by": ClusterSettings}
        options |= {"bloom_filters": BloomFilterSettings}
        model = options.get(str(step)) if field is not None else None
    known = sorted(getattr(model, "model_fields", {}))
    close = difflib.get_close_matches(str(loc[-1]), known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are {', '.join(name for name in known if name != 'name')}" if known else ""


def _overlaps(roots: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield both tables of equal or nested roots with the mistake of each.

    One of them would sweep the objects of the other, and nobody knows which root is wrong.
    """
    places = sorted((_place(root), name) for name, root in roots.items())
    above: list[tuple[tuple[str, ...], str]] = []
    for place, name in places:
        while above and place[: len(above[-1][0])] != above[-1][0]:
            above.pop()
        if above:
            other = above[-1]
            same = other[0] == place
            own = "give each table its own"
            how, turned = ("is the same as",) * 2 if same else ("is inside", "contains")
            yield name, f"tables.{name}.root: {how} the root of {other[1]}; {own}"
            yield other[1], f"tables.{other[1]}.root: {turned} the root of {name}; {own}"
        above.append((place, name))


def _place(url: str) -> tuple[str, ...]:
    root = Root.parse(url)
    segments = f"{root.bucket}/{root.prefix}".split("/")
    return (root.scheme, *(segment for segment in segments if segment))


def _as_error(where: Path, problems: list[str]) -> SettingsError:
    problems = [p if len(p) <= _LONGEST else f"{p[:_LONGEST]}…" for p in problems]
    if len(problems) == 1:
        return SettingsError(f"{where}: {problems[0]}", next_step=_NEXT_STEP)
    shown = problems[:_SHOWN]
    more = [f"… and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    lines = "\n".join(f"  {line}" for line in shown + more)
    return SettingsError(f"{where} has {len(problems)} mistakes:\n{lines}\n", next_step=_NEXT_STEP)


def settings_for_root(url: str) -> TableSettings:
    """Return default settings for a table in no settings file, named by the end of its root.

    Raises:
        UsageError: ``url`` is not a root.
    """
    name = name_from(url)
    try:
        return TableSettings.model_validate({"name": name or "table", "root": url})
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        reason = mistake.get("ctx", {}).get("error", mistake["msg"])
        step = "correct it, or give a name of the settings file"
        if "://" not in url:
            step = f"for a folder write file://{Path(url).absolute()}"
        raise UsageError(f"no table can be at this root: {reason}", next_step=step) from None


def find_table(target: str, path: Path | str | None = None) -> TableSettings:
    """Return the settings of a table given by its name or its root URL.

    If a table of the settings file has this root, its settings are returned. For a root URL the
    file need not exist.

    Raises:
        UsageError: it is neither a name nor a root URL, such as the path of a folder.
        UsageError, SettingsError: as ``load_settings``, ``Settings.table``, ``settings_for_root``.
    """
    return find_with_file(target, path)[0]


def find_with_file(
    target: str, path: Path | str | None = None
) -> tuple[TableSettings, Path | None]:
    """Return as ``find_table``, with the settings file that has the table; None if none has it."""
    _refuse_path(target)
    if "://" not in target:
        loaded = load_settings(path)
        return loaded.table(target), loaded.path
    ad_hoc = settings_for_root(target)
    if path is None and not settings_path().is_file():
        return ad_hoc, None
    loaded = load_settings(path)
    for broken in loaded.broken.values():
        if broken.root == ad_hoc.root:
            raise broken.error
    same = (table for table in loaded.tables.values() if table.root == ad_hoc.root)
    found = next(same, None)
    return (ad_hoc, None) if found is None else (found, loaded.path)


def _refuse_path(target: object) -> None:
    """Refuse what cannot be a table: a value that is no text, and the path of a folder."""
    if isinstance(target, os.PathLike):
        path = str(os.fspath(target))
    elif not isinstance(target, str):
        raise UsageError(
            f"a value of type {type(target).__name__} names no table",
            next_step="give a name of the settings file, or a root URL",
        )
    else:
        path = target
    meant = meant_url(path)
    if meant is None:
        return
    is_path = meant == f"file://{Path(path).absolute()}"
    raise UsageError(
        f"{path!r} is {'a path' if is_path else 'no URL'}, and a table is named by its root URL",
        next_step=f"write {meant}",
    )
