"""Mistakes in the settings as people read them: a line each, with the path of the field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from firnline.errors import SettingsError
from firnline.paths import Root
from firnline.settings.imports import ImportSettings
from firnline.settings.launchers import SparkSettings
from firnline.settings.model import TableSettings
from firnline.settings.sections import (
    AppendSettings,
    BloomFilterSettings,
    CleanupSettings,
    ClusterSettings,
    MergeSettings,
    TtlSettings,
    fields_by_key,
)

_SHOWN = 20
"""Errors listed at most; more than that have one cause."""
_LONGEST = 400
"""Characters shown of one error: a wrong value may have megabytes."""
_NEXT_STEP = "correct the file and run `firnline settings check`"

_KEYS = {"ttl": "keep", "cluster_by": "columns", "alerts": "notifier", "spark": "master"}
"""Section -> the setting that a single value is meant for."""

_SHAPES = {
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
"""What YAML calls the types of pydantic."""


class FileError(SettingsError):
    """The mistakes in a file, each a line."""

    def __init__(
        self, message: str, path: Path, lines: Sequence[str], listed: Sequence[str] = ()
    ) -> None:
        super().__init__(message, next_step=_NEXT_STEP, listed=listed)
        self.path = path
        self.lines = lines


def as_error(where: Path, problems: Sequence[str]) -> SettingsError:
    """Return the error of a file with its mistakes."""
    problems = [p if len(p) <= _LONGEST else f"{p[:_LONGEST]}…" for p in problems]
    if len(problems) == 1:
        return FileError(f"{where}: {problems[0]}", where, problems)
    shown = list(problems[:_SHOWN])
    more = [f"… and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    return FileError(f"{where} has {len(problems)} mistakes:", where, problems, shown + more)


def lines_of(error: SettingsError, where: Path) -> list[str]:
    """Return the mistakes of an error, with their file if ``where`` is a folder."""
    if not isinstance(error, FileError):
        return [error.message]
    whose = "" if error.path == where else f"{error.path.name}: "
    return [f"{whose}{line}" for line in error.lines]


def describe(
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
    # Items of lists may be texts: mappings are their longer form. Names of settings are texts.
    is_text = kind in {"string_type", "invalid_key"} or (
        shape == "a mapping" and path.endswith("]")
    )
    if is_text and isinstance(value, bool | int | float):
        return f"{path}: YAML reads this as {value!r}; put it in quotes"
    shown = f", not {value!r}" if isinstance(value, str | int | float | None) else ""
    must = f"must be {shape}" if shape else message.replace("Input should", "must")
    return f"{path}: {must}{shown}{_example(str(mistake['loc'][-1]), shape, value)}"


def _example(field: str, shape: str | None, value: object) -> str:
    """Return how a single value is written where a list or a section has to stand."""
    if not isinstance(value, str):
        return ""
    if shape == "a list":
        return f"; write {field}: [{value}]"
    key = _KEYS.get(field)
    return f"; write {field}: {{{key}: {value}}}" if shape == "a mapping" and key else ""


def _suggestion(loc: tuple[int | str, ...], model: Any) -> str:  # noqa: ANN401 - walks down
    for step in loc[:-1]:
        field = None if model is None else fields_by_key(model).get(str(step))
        options = {"append": AppendSettings, "merge": MergeSettings, "cleanup": CleanupSettings}
        options |= {"ttl": TtlSettings, "spark": SparkSettings, "cluster_by": ClusterSettings}
        options |= {"bloom_filters": BloomFilterSettings, "import": ImportSettings}
        model = options.get(str(step)) if field is not None else None
    keys = [] if model is None else sorted(fields_by_key(model))
    close = difflib.get_close_matches(str(loc[-1]), keys, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are {', '.join(name for name in keys if name != 'name')}" if keys else ""


def overlaps(roots: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield both tables of equal or nested roots with the mistake of each.

    One of them would sweep the objects of the other, and nobody knows which root is wrong.

    Args:
        roots: name and root of each table; one that is in several files may have several.
    """
    places = sorted((_place(root), name) for name, root in roots)
    above: list[tuple[tuple[str, ...], str]] = []
    for place, name in places:
        while above and place[: len(above[-1][0])] != above[-1][0]:
            above.pop()
        other = next((each for each in reversed(above) if each[1] != name), None)
        if other is not None:
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
