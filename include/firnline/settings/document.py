"""Read YAML within bounds; fill in variables and defaults.

The file may come from anybody: its size, its depth and the values that aliases make of it are
bounded, and it holds data only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from firnline.errors import SettingsError
from firnline.settings.launchers import PLATFORMS, section_of

KEYS = ("defaults", "tables", "fleet", "airflow", "erasure")
"""What a settings file may have at its top."""

MAX_DEPTH = 50
"""Nested levels at most; the deepest setting is on the sixth."""

MAX_VALUES = 200_000
"""Values at most, repeated aliases included; a thousand tables have about 20,000."""

MAX_NUMBER = 100
"""Characters of a number at most. YAML 1.1 also parses 1:30:00 as one, in quadratic time."""

# The C parser is ten times faster, and Airflow reads the file at every DAG parse.
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}")
_PLATFORMS = frozenset(map(section_of, PLATFORMS))
_HIDES: Mapping[str, frozenset[str]] = {
    "partition": frozenset(("partition_by",)),
    "partition_by": frozenset(("partition",)),
    "cluster": frozenset(("new_cluster",)),
    "new_cluster": frozenset(("cluster",)),
    **{each: _PLATFORMS - {each} | {"launcher"} for each in _PLATFORMS},
}
"""Setting of a section -> those of the defaults that it excludes, which are left out then."""

_TOO_DEEP = "it is nested too deeply"
_TOO_MANY = f"it holds more than {MAX_VALUES:,} values"


class _Loader(_BASE):  # type: ignore[misc]  # the base is chosen at run time
    """Loads safe types only; refuses duplicate keys and merge keys.

    Merge keys (``<<``) copy mappings, so a few lines of them could fill any memory; ``defaults``
    serves their purpose. Plain aliases are shared and cost nothing.
    """

    depth = 0
    values = 0

    def descend_resolver(self, current_node: object, current_index: object) -> None:
        # Called for every node on the way down. The C parser recurses without a check of its
        # stack: a hundred thousand brackets crash the process.
        self.depth += 1
        self.values += 1
        if self.depth > MAX_DEPTH:
            raise yaml.constructor.ConstructorError(problem=_TOO_DEEP)
        if self.values > MAX_VALUES:
            raise yaml.constructor.ConstructorError(problem=_TOO_MANY)
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        self.depth -= 1
        super().ascend_resolver()

    def construct_scalar(self, node: yaml.Node) -> Any:  # noqa: ANN401 - as yaml has it
        numbers = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if node.tag in numbers and len(node.value) > MAX_NUMBER:
            raise yaml.constructor.ConstructorError(
                None, None, f"a number of {len(node.value)} characters", node.start_mark
            )
        return super().construct_scalar(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    "merge keys (<<) are not supported; use defaults",
                    key_node.start_mark,
                )
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a name", key_node.start_mark
                )
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key_node.value!r} is written twice", key_node.start_mark
                )
            seen.add(key_node.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def parse_yaml(path: Path, raw: bytes) -> dict[Any, Any]:
    """Return the mapping in a settings file, whose content is ``raw``.

    Raises:
        SettingsError: it is not YAML (names the line), or not a mapping.
    """
    try:
        value = yaml.load(raw, Loader=_Loader)  # noqa: S506 - _Loader is a safe loader
        _check_size(value, 1, {})
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(
            f"{path}{_mark_place(error, raw)}: {_reason(error, raw)}", next_step="correct that line"
        ) from None
    if not isinstance(value, dict):
        raise SettingsError(
            f"{path} holds no settings",
            next_step="write a mapping with the keys defaults and tables",
        )
    return value


def _check_size(value: object, depth: int, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Count values and levels, with every alias counted as its target.

    A few lines of nested aliases can expand to more than any memory holds, when they are copied,
    compared or printed. An alias may also refer to a mapping or list that contains it.
    """
    if depth > MAX_DEPTH:
        raise yaml.constructor.ConstructorError(problem=_TOO_DEEP)
    if isinstance(value, set):
        raise yaml.constructor.ConstructorError(problem="a set has no order; write a list")
    if not isinstance(value, dict | list):
        return 1, 1
    if id(value) not in sizes:
        below = [
            _check_size(item, depth + 1, sizes)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        sizes[id(value)] = (
            1 + sum(count for count, _ in below),
            1 + max((levels for _, levels in below), default=0),
        )
    count, levels = sizes[id(value)]
    if depth + levels - 1 > MAX_DEPTH:
        raise yaml.constructor.ConstructorError(problem=_TOO_DEEP)
    if count > MAX_VALUES:
        raise yaml.constructor.ConstructorError(problem=_TOO_MANY)
    return count, levels


def _mark_place(error: Exception, raw: bytes) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f", line {mark.line + 1}, column {mark.column + 1}"
    # libyaml says no line for a character that YAML does not allow, only its place in the file.
    place = getattr(error, "position", None)
    return "" if place is None else f", line {raw[:place].count(10) + 1}"


def _reason(error: Exception, raw: bytes) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        line = b"".join(raw.splitlines()[mark.line : mark.line + 1])  # none at the end of the file
        if line[: mark.column + 1].endswith(b"\t"):
            return "a tab stands there, and YAML takes spaces to indent a line"
    text = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return str(text).splitlines()[0]


def expand(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Replace ``${VAR}`` and ``${VAR:-default}``; an empty variable counts as unset.

    Raises:
        ValueError: a variable without a default is unset, or ``${`` is not closed.
    """
    values = os.environ if environ is None else environ

    def replace(match: re.Match[str]) -> str:
        value = values.get(match["name"]) or match["default"]
        if value is None:
            raise ValueError(
                f"the environment variable {match['name']} is not set; set it or write "
                f"${{{match['name']}:-default}}"
            )
        return value

    if "${" in _VARIABLE.sub("", text):
        raise ValueError(f"{text!r} has a '${{' that is not a variable; write ${{NAME}}")
    return _VARIABLE.sub(replace, text)


def with_defaults(table: Mapping[Any, Any], defaults: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return ``table`` completed with ``defaults``: sections are merged, other values replaced.

    Of two settings that exclude each other the table's own wins over that of the defaults: so does
    its platform.
    """
    hidden = {
        other
        for own in table
        if table[own] is not None or own not in _PLATFORMS
        for other in _HIDES.get(own, ())
        if other not in table
    }
    merged = {key: value for key, value in defaults.items() if key not in hidden}
    for key, value in table.items():
        below = merged.get(key)
        both = isinstance(value, dict) and isinstance(below, dict)
        merged[key] = with_defaults(value, below) if both and below else value
    return merged
