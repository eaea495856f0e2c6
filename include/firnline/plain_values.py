"""Values of other libraries as plain Python: a NumPy number, a column of pandas, an Arrow array.

Options are compared, sorted and written as JSON. A value that only looks like a text or a number
would pass every check, and fail in the middle of a commit. No library is imported for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

_LISTS = ("to_pylist", "to_list", "tolist")
"""Methods by which Arrow, Polars, pandas and NumPy return a column as a list."""


def plain(value: Any) -> Any:  # noqa: ANN401 - of any library
    """Return a value as plain Python, also what is in lists, tuples, sets and mappings.

    A column of another library becomes a list, and its scalars become texts and numbers. What is
    neither stays what it is, for whoever checks types. A type is never asked for its truth or
    compared: columns answer that with a column.
    """
    if isinstance(value, Mapping):
        return {plain(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | Set):
        return _each(value)
    if isinstance(value, str | int | float) or value is None or isinstance(value, type):
        return _basic(value)
    return _foreign(value)


def _each(values: Iterable[Any]) -> list[Any] | tuple[Any, ...]:
    made = [plain(each) for each in values]
    return made if isinstance(values, list) else tuple(made)


def _basic(value: Any) -> Any:  # noqa: ANN401 - text, number or None
    """Return the text or number that a subclass of ``str``, ``int`` or ``float`` is."""
    if value is None or isinstance(value, bool | type):
        return value
    kind = next(each for each in (str, int, float) if isinstance(value, each))
    if type(value) is kind:
        return value
    return str.__str__(value) if kind is str else kind(value)


def _foreign(value: Any) -> Any:  # noqa: ANN401 - of any library
    if hasattr(value, "as_py"):
        return plain(value.as_py())
    if getattr(getattr(value, "dtype", None), "str", "")[1:] == "M8[ns]":
        coarser = value.astype("datetime64[us]")  # ``tolist`` makes numbers of nanoseconds
        return plain(coarser) if bool((coarser == value).all()) else value
    for method in _LISTS:
        if hasattr(value, method):
            made = getattr(value, method)()
            return made if type(made) is type(value) else plain(made)
    return value
