"""Objects of the public interface in shells and notebooks: one line, and a small table.

What a dataclass prints of itself is exact, and for an open table thousands of characters long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TypeVar

HIDDEN = "…"
"""Stands for a value that may be that of a person."""
LONGEST = 160
"""Characters of the line, at most."""
_WRITTEN_OUT = 5
"""Values of a list that are written out; of a longer one its length is."""


ShownT = TypeVar("ShownT", bound="Shown")


class Shown:
    """Gives a class ``__repr__`` and ``_repr_html_``, from a title and some facts."""

    __slots__ = ()

    def _title(self) -> str:
        """Return what it is, with the name of its table."""
        raise NotImplementedError

    def _facts(self) -> Mapping[str, str]:
        """Return what is worth seeing, by name; sends no request."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return one_line(self._title(), self._facts())

    def _repr_html_(self) -> str:
        return small_table(self._title(), self._facts())

    def _row(self) -> tuple[str, Mapping[str, str]]:
        """Return title and facts, for a list of such objects."""
        return self._title(), self._facts()


class ShownList(list[ShownT]):
    """A list whose HTML is one table, a row for each of its objects."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return wide_table([each._row() for each in self])  # noqa: SLF001 - of the class above


class ShownFigures(Shown):
    """The same, from the figures that a plan or a report has in its JSON."""

    __slots__ = ()

    def to_json(self) -> Mapping[str, object]:
        """Return plain data."""
        raise NotImplementedError

    def _title(self) -> str:
        table = getattr(self, "table", None)
        return f"{type(self).__name__} of {table}" if table else type(self).__name__

    def _facts(self) -> Mapping[str, str]:
        return figures(self.to_json()) or {"found": "nothing"}


def one_line(title: str, facts: Mapping[str, str]) -> str:
    """Return ``<title: name value, name value>``, cut at ``LONGEST`` characters."""
    words = ", ".join(f"{name} {value}" for name, value in facts.items())
    whole = " ".join(f"{title}: {words}".split()) if words else title
    return f"<{whole}>" if len(whole) + 2 <= LONGEST else f"<{whole[: LONGEST - 3]}…>"


def small_table(title: str, facts: Mapping[str, str]) -> str:
    """Return the same as an HTML table of two columns; every text is escaped."""
    rows = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def wide_table(rows: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """Return an HTML table with a row for each title and its facts, a column for each name."""
    names = list(dict.fromkeys(name for _, facts in rows for name in facts))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr><th>{escape(title)}</th>"
        + "".join(f"<td>{escape(facts.get(name, ''))}</td>" for name in names)
        + "</tr>"
        for title, facts in rows
    )
    return f"<table><tr><th></th>{head}</tr>{body}</table>"


def when(time_ms: int) -> str:
    """Format unix milliseconds as ``2013-01-05 07:00:00Z``, or as a number if out of range."""
    try:
        return f"{datetime.fromtimestamp(time_ms // 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def figures(fields: Mapping[str, object]) -> dict[str, str]:
    """Return the fields of a report as facts: a structure's by their own names, lists by length.

    Left out are what is empty, zero or false, and the name of the table, which is in the title.
    """
    texts: dict[str, str] = {}
    for name, value in fields.items():
        inner: tuple[str, ...] = getattr(value, "__struct_fields__", ())
        if inner:
            texts |= figures({each: getattr(value, each) for each in inner})
        elif value and name != "table":
            texts[name] = _figure(value)
    return texts


def _figure(value: object) -> str:
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, Mapping) and all(isinstance(each, int) for each in value.values()):
        return ", ".join(f"{name} {count:,}" for name, count in value.items() if count)
    if not isinstance(value, Collection):
        return str(value)
    plain = not isinstance(value, Mapping) and all(isinstance(each, int | str) for each in value)
    if plain and len(value) <= _WRITTEN_OUT:
        return ", ".join(map(str, value))
    return f"{len(value):,} in all"
