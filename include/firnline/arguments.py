"""Arguments of what people call in Python: of the types that are declared, or refused.

Python takes whatever it is given: a text in the place of a flag would switch it on, and a number in
the place of a path would fail far inside. ``typed`` checks what a function declares as one of
``_CHECKS``; functions check the rest themselves.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from firnline.errors import UsageError, quoted
from firnline.plain_values import plain

Params = ParamSpec("Params")
Returned = TypeVar("Returned")


def typed(function: Callable[Params, Returned]) -> Callable[Params, Returned]:
    """Let a function raise UsageError for arguments of other types than it declares.

    Values of other libraries reach it as plain ones (``plain_values``).
    """
    signature = inspect.signature(function)
    checks = {
        each.name: _CHECKS[str(each.annotation)]
        for each in signature.parameters.values()
        if str(each.annotation) in _CHECKS
    }

    @functools.wraps(function)
    def call(*args: Params.args, **named: Params.kwargs) -> Returned:
        try:
            bound = signature.bind(*args, **named)
        except TypeError:
            return function(*args, **named)  # Python says what is missing or too much
        for name, given in bound.arguments.items():
            if name in checks:
                bound.arguments[name] = checks[name](name, given)
        return function(*bound.args, **bound.kwargs)

    return call


def flag(name: str, given: object) -> bool:
    """Return a flag. Raises UsageError for anything else, also for a text or a number."""
    value = plain(given)
    if not isinstance(value, bool):
        raise _refused(name, given, "neither True nor False", "give one of them")
    return value


def whole(name: str, given: object) -> int:
    """Return a whole number. Raises UsageError."""
    value = plain(given)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refused(name, given, "not a whole number", "give a number, such as 20")
    return value


def text(name: str, given: object) -> str:
    """Return a text. Raises UsageError."""
    value = plain(given)
    if not isinstance(value, str):
        raise _refused(name, given, "not a text", "give a text")
    return value


def names(name: str, given: Any) -> tuple[str, ...]:  # noqa: ANN401 - of any library
    """Return the texts of a list, or of anything else that can be iterated. Raises UsageError."""
    value = plain(given)
    if isinstance(value, str):
        raise UsageError(f"{name} is one text, {quoted(value)}", next_step="give a list of texts")
    try:
        texts = tuple(plain(each) for each in value)
    except TypeError:
        texts = (None,)
    if isinstance(value, bytes) or not all(isinstance(each, str) for each in texts):
        raise _refused(name, given, "not a list of texts", 'give one, such as ["first"]')
    return texts


def paths(name: str, given: Any) -> tuple[str | os.PathLike[str], ...]:  # noqa: ANN401 - of any library
    """Return the paths of a list. Raises UsageError, also for a single path."""
    value = plain(given)
    if isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} is one path, {str(value)!r}", next_step="give a list of paths")
    if not isinstance(value, list | tuple) or not all(
        isinstance(each, str | os.PathLike) for each in value
    ):
        raise _refused(name, given, "not a list of paths", 'give one, such as ["a.parquet"]')
    if any(isinstance(each, str) and not each.strip() for each in value):
        raise UsageError(f"one of {name} is empty", next_step="give paths of files")
    return tuple(value)


def path(name: str, given: Any) -> str | os.PathLike[str]:  # noqa: ANN401 - of any library
    """Return a path. Raises UsageError."""
    value = plain(given)
    if not isinstance(value, str | os.PathLike) or not str(value).strip():
        raise _refused(name, given, "not a path", 'give one, such as "keys.csv"')
    return value


def callback(name: str, given: object) -> object:
    """Return what can be called. Raises UsageError."""
    if not callable(given):
        raise _refused(name, given, "no function", "give one, which is called with the progress")
    return given


def _or_none(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, given: None if given is None else check(name, given)


def _refused(name: str, given: object, what: str, next_step: str) -> UsageError:
    return UsageError(f"{name} is {what}: {quoted(given)}", next_step=next_step)


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "bool": flag,
    "bool | None": _or_none(flag),
    "int": whole,
    "int | None": _or_none(whole),
    "str": text,
    "str | None": _or_none(text),
    "Iterable[str] | None": _or_none(names),
    "Sequence[str]": names,
    "Path | str": path,
    "Sequence[Path | str]": paths,
    "OnProgress | None": _or_none(callback),
    "Callable[[ImportProgress], None] | None": _or_none(callback),
    "Callable[[int, int], None] | None": _or_none(callback),
    "Callable[[MirrorProgress], None] | None": _or_none(callback),
}
"""Annotation, as it is written -> check."""
