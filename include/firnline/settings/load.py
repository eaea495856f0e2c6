"""Load the settings: ``defaults``, ``tables`` by name, and the ``fleet``, of a file or of a folder.

A mistake in the section of one table takes out that table alone. One in what all tables of a file
share (``defaults``, ``fleet``, the file itself) takes out the file.

Airflow reads them at every DAG parse: no network, no heavy import, and 1,000 tables within a
second.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from firnline.errors import SettingsError, UsageError
from firnline.meant_url import is_path, refuse_unfilled, step_to
from firnline.paths import refuse_user
from firnline.settings.airflow import AirflowSettings
from firnline.settings.broken import BrokenTable, root_of
from firnline.settings.dags import fleet_tables, own_dags
from firnline.settings.document import KEYS, expand, parse_yaml, with_defaults
from firnline.settings.erasure import ErasureSettings
from firnline.settings.fields import PartitionField, SortField
from firnline.settings.files import (
    NAME_IT,
    SHARED,
    TABLES_VARIABLE,
    Content,
    UnreadFile,
    files_of,
    is_shared,
    may_be,
    read_file,
)
from firnline.settings.fleet import FleetSettings
from firnline.settings.launchers import SparkSettings
from firnline.settings.mistakes import as_error, describe, lines_of, overlaps
from firnline.settings.model import TABLE_NAME, TABLE_NAME_RULE, TableSettings, name_from
from firnline.settings.sections import (
    AppendSettings,
    CleanupSettings,
    ClusterSettings,
    MergeSettings,
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

_SharedT = TypeVar("_SharedT", FleetSettings, AirflowSettings, ErasureSettings)

_NOT_DEFAULTS = ("name", "root", "airflow")
"""Keys that ``defaults`` may not have."""
_EXPANDED = ("root", "connection_id", "requests")
"""Settings in which variables are expanded, besides ``import.source``."""
_REQUESTS = "erasure.requests"

BESIDE = Path(__file__).resolve().parents[2] / "tables.yaml"
"""The settings file beside the package, as in a clone of the repository."""

_KINDS = {
    int: "a number",
    float: "a number",
    datetime.date: "a date",
    datetime.datetime: "a date",
}
"""What YAML makes of a key without quotes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The content of a settings file, or of the files of a folder."""

    path: Path
    """Of the file or the folder."""
    tables: dict[str, TableSettings]
    fleet: FleetSettings = dataclasses.field(default_factory=FleetSettings)
    airflow: AirflowSettings = dataclasses.field(default_factory=AirflowSettings)
    """Of all DAGs."""
    erasure: ErasureSettings = dataclasses.field(default_factory=ErasureSettings)
    broken: dict[str, BrokenTable] = dataclasses.field(default_factory=dict)
    """Tables whose sections have mistakes; they are not among ``tables``."""
    unread: tuple[UnreadFile, ...] = ()
    """Files that do not read: the content of before stands in, or their tables are missing."""
    files: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    """Name of a table -> the file that has its section."""
    contents: Mapping[Path, Content] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )
    """File -> exactly what was read of it; without those that are ``unread``."""

    @property
    def needs_planner(self) -> bool:
        """True if the DAG of the planner is to be there: it also tells of mistakes."""
        return bool(self.broken or self.unread or fleet_tables(self.tables.values()))

    @property
    def unusable(self) -> tuple[BrokenTable, ...]:
        """Tables with mistakes, and one for each file whose tables are missing, by its name."""
        missing = (each for each in self.unread if each.since_ms is None)
        files = (BrokenTable(each.path.name, each.error, {}) for each in missing)
        return (*self.broken.values(), *files)

    def table(self, name: str) -> TableSettings:
        """Return the settings of one table.

        Raises:
            UsageError: there is no such table; names those that there are.
            SettingsError: its section has mistakes, or there is no such table and the tables of a
                file are missing.
        """
        self.refuse_broken(name)
        own = self.tables.get(name)
        if own is not None:
            return own
        none = f"no table {name!r} in {self.path}"
        missing = next((each for each in self.unread if each.since_ms is None), None)
        if missing is not None:
            error = missing.error
            raise SettingsError(
                f"{none}, and {error.headline}", next_step=error.next_step, listed=error.listed
            )
        raise UsageError(none, next_step=_which(name, self.tables))

    def refuse_broken(self, name: object) -> None:
        """Raise SettingsError for a table whose section has mistakes; others need not be there.

        ``name`` may be anything: the configuration of a run is what somebody typed.
        """
        if isinstance(name, str) and name in self.broken:
            raise self.broken[name].error


def _which(name: str, tables: Iterable[str]) -> str:
    names = sorted(tables)
    close = difflib.get_close_matches(name, names, n=3) or names[:10]
    if not close:
        return "add it under tables"
    more = ", …" if len(names) > len(close) else ""
    return f"use one of {', '.join(close)}{more}, add it there, or give a root URL"


def settings_path() -> Path:
    """Return the path of the settings: $FIRNLINE_TABLES, else ``include/tables.yaml``.

    The former may be a folder. The latter is searched under the current folder, where
    ``tables.yaml`` itself comes next, under $AIRFLOW_HOME and beside the package.
    """
    named = os.environ.get(TABLES_VARIABLE)
    if named:
        return Path(named)
    home = os.environ.get("AIRFLOW_HOME")
    airflows = [Path(home, "include", "tables.yaml")] if home else []
    places = [*places_here(), *airflows, BESIDE]
    return next((place for place in places if may_be(place.is_file)), BESIDE)


def places_here() -> tuple[Path, ...]:
    """Return where the settings file is searched under the current folder, in this order."""
    here = Path.cwd()
    return here / "include" / "tables.yaml", here / "tables.yaml"


def no_settings() -> bool:
    """Return True if the environment names no settings file, and the usual places have none."""
    return not os.environ.get(TABLES_VARIABLE) and not may_be(settings_path().is_file)


def load_settings(
    path: Path | str | None = None,
    *,
    strict: bool = False,
    stand_in: Callable[[Path], Path | None] = lambda _: None,
) -> Settings:
    """Load and validate a settings file, or the files of a folder.

    Args:
        path: of the file or folder; defaults to ``settings_path()``.
        strict: refuse a table that is ``broken`` and a file that is ``unread``.
        stand_in: returns what is read in the place of a file that does not read; None for nothing.
            What it has of the file that all share is read also if that file is not there.

    Raises:
        UsageError: ``path`` is no path.
        SettingsError: the only file, or that with what all share, does not read; with ``strict``
            anything else. Lists every error with the file and the field's path in it.
    """
    where = _named(path)
    step = _correct_place(where, given=path is not None)
    read: list[_Document] = []
    unread: list[UnreadFile] = []
    for file in _expected(where, stand_in):
        shared = is_shared(file, where)
        below = None if shared else next((d.defaults for d in read if d.shared), {})
        alone = step if file == where else None
        document, fault = _read_or_stand_in(file, below, next_step=alone, stand_in=stand_in)
        read += [] if document is None else [document]
        unread += [] if fault is None else [fault]
        if document is None and fault is not None and shared:
            raise fault.error
    settings = _assembled(where, read)
    if strict and (settings.broken or unread):
        raise _all_mistakes(where, [each.error for each in unread], settings.broken.values())
    other = {each.path for each in unread}
    contents = {each.path: each.content for each in read if each.path not in other}
    return dataclasses.replace(settings, unread=tuple(unread), contents=contents)


def _named(path: object) -> Path:
    """Return the path of the settings that a caller names. Raises UsageError if it is none."""
    if path is None:
        return settings_path()
    if isinstance(path, str) and not path.strip():
        raise UsageError(
            "the path of the settings is empty",
            next_step=f"give that of a file or a folder, or none for ${TABLES_VARIABLE} and the "
            "usual places",
        )
    if isinstance(path, str | os.PathLike) and "\0" not in str(path):
        return Path(path)
    raise UsageError(
        f"a value of type {type(path).__name__} names no settings: {path!r:.100}",
        next_step="give the path of a file or a folder",
    )


def _expected(where: Path, stand_in: Callable[[Path], Path | None]) -> tuple[Path, ...]:
    """Return the files of the settings, with that of all if it is gone and something stands in.

    Without it each table would have other settings, and nobody would be told.
    """
    files = files_of(where)
    if any(is_shared(each, where) for each in files):
        return files
    before = stand_in(where / SHARED)
    return files if before is None else (where / before.name, *files)


@dataclasses.dataclass(frozen=True, slots=True)
class _Document:
    """A file whose shared part has no mistakes."""

    path: Path
    shared: bool
    content: Content
    defaults: dict[Any, Any]
    """Those of all files among them."""
    tables: dict[Any, Any]
    fleet: FleetSettings
    airflow: AirflowSettings
    erasure: ErasureSettings


def _read_or_stand_in(
    file: Path,
    below: Mapping[Any, Any] | None,
    *,
    next_step: str | None,
    stand_in: Callable[[Path], Path | None],
) -> tuple[_Document | None, UnreadFile | None]:
    """Return a file as it is, or what stands in for it, and why. Arguments as below."""
    try:
        return _read_document(file, file, below, next_step=next_step), None
    except SettingsError as error:
        other = stand_in(file)
        try:
            if other is not None:
                document = _read_document(file, other, below, next_step=next_step)
                since_ms = document.content.modified_ns // 1_000_000
                return document, UnreadFile(file, error, since_ms)
        except SettingsError:
            pass  # it helps no more than the file itself, whose error is told
        return None, UnreadFile(file, error, None)


def _read_document(
    file: Path, source: Path, below: Mapping[Any, Any] | None, *, next_step: str | None
) -> _Document:
    """Read a file.

    Args:
        file: the file, as errors name it.
        source: what is read.
        below: the defaults of the file that all share; None for that file itself.
        next_step: as ``read_file``.

    Raises:
        SettingsError: with all mistakes in it.
    """
    read = read_file(source, next_step=next_step)
    content = parse_yaml(source, read.raw)
    problems: list[str] = []
    defaults = _section(content, "defaults", problems)
    tables = _section(content, "tables", problems)
    problems += [
        f"{key}: is not a setting; allowed are defaults, tables, fleet, airflow and erasure"
        for key in content
        if key not in KEYS
    ]
    for key in () if below is None else ("fleet", "airflow", "erasure"):
        if key in content:
            problems.append(f"{key}: holds for the tables of all files; move it to {SHARED}")
    fleet = _load_section(content, "fleet", FleetSettings, problems)
    airflow = _load_section(content, "airflow", AirflowSettings, problems)
    erasure = _load_section(content, "erasure", ErasureSettings, problems)
    defaults = with_defaults(defaults, below or {})
    wrong_defaults = list(_check_defaults(defaults))
    problems += wrong_defaults
    if problems:
        _, mistakes = _load_tables(tables, {} if wrong_defaults else defaults)
        raise as_error(file, [*problems, *(line for lines in mistakes.values() for line in lines)])
    return _Document(file, below is None, read, defaults, tables, fleet, airflow, erasure)


def _load_tables(
    tables: Mapping[Any, Any], defaults: dict[Any, Any]
) -> tuple[dict[str, TableSettings], dict[str, list[str]]]:
    """Return the tables, and the mistakes of the others."""
    loaded: dict[str, TableSettings] = {}
    mistakes: dict[str, list[str]] = {}
    for name, given in tables.items():
        try:
            loaded[name] = _load_table(name, given, defaults)
        except _MistakesError as error:
            mistakes[str(name)] = error.lines
    return loaded, mistakes


def _assembled(where: Path, documents: Sequence[_Document]) -> Settings:
    """Return the settings of all files together."""
    loaded: dict[str, TableSettings] = {}
    mistakes: dict[str, list[str]] = {}
    files: dict[str, Path] = {}
    given: dict[str, list[Mapping[Any, Any]]] = {}
    roots: list[tuple[str, str]] = []
    for document in documents:
        tables, wrong = _load_tables(document.tables, document.defaults)
        for name, section in document.tables.items():
            key = str(name)
            own = with_defaults(section, document.defaults) if isinstance(section, dict) else {}
            given.setdefault(key, []).append(own)
            # That one of two has another mistake does not make the other one safe.
            table = tables.get(name)
            roots.append((key, table.root if table else root_of(own)))
            if key in files and files[key] != document.path:
                twice = f"tables.{key}: is in {files[key].name} and in {document.path.name}"
                wrong.setdefault(key, []).append(f"{twice}; keep one of them")
            files.setdefault(key, document.path)
        loaded |= {name: table for name, table in tables.items() if name not in loaded}
        for name, lines in wrong.items():
            mistakes.setdefault(name, []).extend(lines)
    erasure = documents[0].erasure if documents else ErasureSettings()
    # A sweep of a table must not find the requests, nor a table lie among them.
    roots.append((_REQUESTS, erasure.requests or ""))
    for name, line in overlaps((name, root) for name, root in roots if root):
        if name != _REQUESTS:
            mistakes.setdefault(name, []).append(line)
    broken = {
        name: BrokenTable(name, as_error(files[name], lines), given[name][0], (*given[name][1:],))
        for name, lines in mistakes.items()
    }
    fleet = documents[0].fleet if documents else FleetSettings()
    airflow = documents[0].airflow if documents else AirflowSettings()
    # Each with all operations that have a DAG of its own, those for a schedule too.
    kept = {
        name: table.model_copy(update={"own_dags": own_dags(table, fleet)})
        for name, table in loaded.items()
        if name not in broken
    }
    return Settings(where, kept, fleet, airflow, erasure, broken, files=files)


def _all_mistakes(
    where: Path, files: Sequence[SettingsError], broken: Iterable[BrokenTable]
) -> SettingsError:
    """Return one error of all files and tables."""
    errors = [*files, *(each.error for each in broken)]
    if len(errors) == 1:
        return errors[0]
    return as_error(where, [line for error in errors for line in lines_of(error, where)])


def _correct_place(where: Path, *, given: bool) -> str:
    """Return the next step if what the settings are read from cannot be read.

    Raises SettingsError if no file was named and none was found.
    """
    named = os.environ.get(TABLES_VARIABLE)
    if named and where == Path(named):
        return f"correct {TABLES_VARIABLE}, which names it"
    if given:
        return "correct --settings"
    if not may_be(where.exists):
        raise SettingsError(
            "there is no settings file: $FIRNLINE_TABLES names none, and here is neither "
            f"{' nor '.join(str(place.relative_to(Path.cwd())) for place in places_here())}",
            next_step="`firnline init` writes one; or give the root URL of a table",
        )
    return NAME_IT


def _load_section(
    content: Mapping[Any, Any], key: str, kind: type[_SharedT], problems: list[str]
) -> _SharedT:
    """Return what stands at the top of the file, beside the tables; the defaults with mistakes."""
    section = _section(content, key, problems)
    try:
        return kind.model_validate(_expanded({**section}) if kind is ErasureSettings else section)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        problems += [describe(key, mistake, kind) for mistake in mistakes]
    except _FieldError as error:
        problems.append(f"{key}.{error}")
    return kind()


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
    if "airflow" in defaults:
        yield (
            "defaults.airflow: what holds for all tables is in the section `airflow` at the top of "
            "the file, for the DAGs that all tables share too; move it there"
        )
    own = {key: value for key, value in defaults.items() if key not in _NOT_DEFAULTS}
    try:
        TableSettings.model_validate(_expanded({**own, "name": "x", "root": "memory://x"}))
    except ValidationError as error:
        for mistake in error.errors(include_url=False):
            # A conflict of two settings may be resolved by a table, so it is checked there.
            together = mistake["type"] == "value_error" and isinstance(mistake["input"], dict)
            if not together:
                yield describe("defaults", mistake)
    except _FieldError as error:
        yield f"defaults.{error}"


class _MistakesError(Exception):
    """The mistakes of one table's section."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self.lines = list(lines)


def _no_name(name: object) -> str:
    """Return why a key of ``tables`` is none of a table, and what to write."""
    if isinstance(name, str):
        return f"is not a table name; {TABLE_NAME_RULE}"
    if isinstance(name, bool):
        words = "yes, on or true" if name else "no, off or false"
        return f"YAML reads this name ({words}) as a boolean; put it in quotes, as it is written"
    kind = _KINDS.get(type(name), "a null" if name is None else "no text")
    return f"YAML reads this name as {kind}; put it in quotes, as it is written"


def _load_table(name: object, given: object, defaults: dict[Any, Any]) -> TableSettings:
    """Return the settings of one table. Raises _MistakesError."""
    if not isinstance(name, str) or TABLE_NAME.fullmatch(name) is None:
        raise _MistakesError(f"tables.{name}: {_no_name(name)}")
    if not isinstance(given, dict):
        raise _MistakesError(f"tables.{name}: must be a mapping with at least a root")
    if "name" in given:
        raise _MistakesError(f"tables.{name}.name: is the key itself; remove it")
    try:
        merged = _expanded({**with_defaults(given, defaults), "name": name})
        return TableSettings.model_validate(merged)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        raise _MistakesError(*(describe(f"tables.{name}", each) for each in mistakes)) from None
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
    section = table.get("import")
    if isinstance(section, dict) and "source" in section:
        table["import"] = {**section, "source": _expanded_sources(section["source"])}
    return table


def _expanded_sources(given: object) -> object:
    try:
        if isinstance(given, list):
            return [expand(each) if isinstance(each, str) else each for each in given]
        return expand(given) if isinstance(given, str) else given
    except ValueError as error:
        raise _FieldError(f"import.source: {error}") from None


def settings_for_root(url: str) -> TableSettings:
    """Return default settings for a table in no settings file, named by the end of its root.

    Raises:
        UsageError: ``url`` is not a root.
    """
    refuse_unfilled(url)
    name = name_from(url)
    try:
        return TableSettings.model_validate({"name": name or "table", "root": url})
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        step = step_to(url) or "correct it, or give a name of the settings file"
        reason = str(mistake.get("ctx", {}).get("error", mistake["msg"])).removesuffix(f"; {step}")
        raise UsageError(f"no table can be at this root: {reason}", next_step=step) from None


def find_table(target: str, path: Path | str | None = None) -> TableSettings:
    """Return the settings of a table given by its name or its root URL.

    If a table of the settings file has this root, its settings are returned. For a root URL the
    file need not exist.

    Raises:
        UsageError: it is neither a name nor a root URL, such as the path of a folder.
        UsageError, SettingsError: as ``load_settings``, ``Settings.table``, ``settings_for_root``.
    """
    return find_with_file(target, path).table


class FoundTable(NamedTuple):
    """The settings of a table, and where they are from."""

    table: TableSettings
    file: Path | None
    """Settings file that has the table; None if none has it."""
    fleet: FleetSettings
    """Of the planner; the defaults for a table that no file has."""


def find_with_file(target: str, path: Path | str | None = None) -> FoundTable:
    """Return as ``find_table``, with the file and the planner's settings; reads the file once."""
    _refuse_path(target)
    if "://" not in target:
        loaded = load_settings(path)
        return FoundTable(loaded.table(target), loaded.files[target], loaded.fleet)
    ad_hoc = settings_for_root(target)
    if path is None and not may_be(settings_path().exists):
        return FoundTable(ad_hoc, None, FleetSettings())
    loaded = load_settings(path)
    same = (table for table in loaded.tables.values() if table.root == ad_hoc.root)
    own = next(same, None)
    if own is not None:
        return FoundTable(own, loaded.files[own.name], loaded.fleet)
    for broken in loaded.unusable:
        # A file that does not read may have the table with this root.
        if not {"", ad_hoc.root}.isdisjoint(broken.roots):
            raise broken.error
    return FoundTable(ad_hoc, None, FleetSettings())


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
    refuse_unfilled(path)
    if "://" not in path:  # the root of a table is refused by its settings
        refuse_user(path, "root")
    step = step_to(path)
    if step is not None:
        what = "a path" if is_path(path) else "no URL"
        raise UsageError(
            f"{path!r} is {what}, and a table is named by its root URL", next_step=step
        )
