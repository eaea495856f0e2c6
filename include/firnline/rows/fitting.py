"""Python values in the types of their columns: converted where nothing is lost, else refused.

What becomes what stands in docs/json.md. pyarrow alone would drop keys that a struct does not have,
cut off fractions and zones, and take a number for a time.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import datetime
import math
import numbers
import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from firnline.errors import quoted
from firnline.types.arrow import is_list
from firnline.types.sql import MAX_LEVELS, fold_name

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.(?P<fraction>\d{1,9}))?)?"
_TIME = re.compile(_CLOCK)
_TIMESTAMP = re.compile(rf"\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}(?P<zone>Z|[+-]\d\d:?\d\d)?)?")
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of a second by unit."""
_MICROS = 6
"""Digits of a second that Python's times have."""

Fit = Callable[[Any], Any]
"""Returns a value, which is not None, in a form that pyarrow converts without loss or refuses."""
_CONTAINERS = (Mapping, list, tuple, set, frozenset)
_MOST_INSIDE = 10**8
"""Lists and dictionaries at one level of one call."""
_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], frozenset[type]], ...] = (
    (pa.types.is_integer, frozenset({int})),
    (pa.types.is_float64, frozenset({float, int})),
    (pa.types.is_string, frozenset({str})),
    (pa.types.is_boolean, frozenset({bool})),
    (pa.types.is_date, frozenset({datetime.date})),
)
_LARGEST_FLOAT = float.fromhex("0x1.fffffep+127")
"""Largest number of 32 bits."""
_OTHER = (bool, str, bytes, Mapping, list, tuple)
"""Values that are no number."""
_MICROSECOND = datetime.timedelta(microseconds=1)


class UnfitError(ValueError):
    """A value that its column cannot hold without loss."""

    def __init__(self, path: str, why: str, *, fraction: bool = False) -> None:
        super().__init__(why)
        self.path = path
        """Of the field; see ``types.schema.fields_of``."""
        self.fraction = fraction
        """True for a number with a fraction in a column of whole numbers."""


def with_more_fields(kind: pa.DataType, values: Sequence[Any], path: str) -> pa.DataType:
    """Return a type with the fields, at any depth, that values have and it does not.

    Args:
        kind: type of the column in the table.
        values: any, also such as do not fit.
        path: of the values, for errors.

    Raises:
        UnfitError: values of a new field have no common type, or its name is no text or that of
            another field in other letters.
    """
    if pa.types.is_struct(kind):
        return _more_of_struct(kind, _dictionaries(values), path)
    if is_list(kind) and not pa.types.is_nested(kind.value_type):
        return kind
    if is_list(kind):
        items = list(chain.from_iterable(_lists(values)))
        inner = with_more_fields(kind.value_type, items, f"{path}[]")
        return kind if inner == kind.value_type else pa.list_(kind.value_field.with_type(inner))
    if pa.types.is_map(kind):
        items = [item for v in values for _, item in _pairs(v)]
        inner = with_more_fields(kind.item_type, items, f"{path}{{}}")
        return kind if inner == kind.item_type else pa.map_(kind.key_type, inner)
    return kind


def _more_of_struct(
    kind: pa.DataType, values: Sequence[Mapping[Any, Any]], path: str
) -> pa.DataType:
    fields = {field.name: field.type for field in kind}
    for name, inner in fields.items():
        if pa.types.is_nested(inner):
            held = [v.get(name) for v in values]
            fields[name] = with_more_fields(inner, held, f"{path}.{name}")
    spelled = {fold_name(name): name for name in fields}
    for name in dict.fromkeys(chain.from_iterable(values)):
        if name in fields:
            continue
        if not isinstance(name, str) or not name:
            raise UnfitError(path, f"{name!r} is not the name of a field")
        spelling = spelled.setdefault(fold_name(name), name)
        if spelling != name:
            raise UnfitError(path, f"{spelling!r} and {name!r} are one name in SQL")
        fields[name] = common_array([v[name] for v in values if name in v], f"{path}.{name}").type
    same = list(fields.items()) == [(field.name, field.type) for field in kind]
    return kind if same else pa.struct(list(fields.items()))


def _dictionaries(values: Sequence[Any]) -> Sequence[Mapping[Any, Any]]:
    # A look at the class is several times as fast as one at what it can do.
    if set(map(type, values)) <= {dict, type(None)}:
        return [value for value in values if value is not None]
    return [value for value in values if isinstance(value, Mapping)]


def _lists(values: Sequence[Any]) -> Sequence[Collection[Any]]:
    if set(map(type, values)) <= {list, type(None)}:
        return [value for value in values if value is not None]
    return [value for value in values if _is_listed(value)]


def common_array(values: Sequence[Any], path: str) -> pa.Array:
    """Return values that have no type yet in the one that they have in common.

    Raises UnfitError: they have none, or are nested deeper than any column.
    """
    refuse_deep(values, path)
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UnfitError(path, str(error).split("\n", 1)[0]) from None


def refuse_deep(values: Collection[Any], path: str) -> None:
    """Raise UnfitError for values deeper than a column: pyarrow would follow them without end.

    Level by level, and each object once in a level, with how often it stands there: a list may hold
    itself, or one object many times.
    """
    # A look at the classes first: most columns hold nothing that holds others.
    if not any(issubclass(each, _CONTAINERS) for each in set(map(type, values))):
        return
    held = [value for value in values if isinstance(value, _CONTAINERS)]
    level, by_id = Counter(map(id, held)), {id(value): value for value in held}
    for _ in range(MAX_LEVELS + 1):
        if not level:
            return
        below, inside = Counter[int](), dict[int, Any]()
        for key, times in level.items():
            holder = by_id[key]
            for value in holder.values() if isinstance(holder, Mapping) else holder:
                if isinstance(value, _CONTAINERS):
                    below[id(value)] += times
                    inside[id(value)] = value
        if below.total() > _MOST_INSIDE:
            raise UnfitError(path, "one object stands in it too often, inside of others")
        level, by_id = below, inside
    raise UnfitError(path, f"nested deeper than {MAX_LEVELS} levels, which no reader takes")


def fitted(kind: pa.DataType, values: Sequence[Any], path: str) -> Sequence[Any]:
    """Return values in a form that pyarrow converts to a type, or refuses, and never cuts off.

    Args:
        kind: their type, with all fields that they have.
        values: any.
        path: of the values, for errors.

    Raises:
        UnfitError: a value would lose something.
    """
    fit = None if _is_plain(kind, values) else _fit(kind, path)
    if fit is None:
        return values
    return [None if value is None else fit(value) for value in values]


def _is_plain(kind: pa.DataType, values: Sequence[Any]) -> bool:
    """Return True if all values are of classes that pyarrow converts without loss, or refuses.

    Column by column, and not value by value: it is several times as fast as ``fitted``.
    """
    classes = set(map(type, values)) - {type(None)}
    if pa.types.is_struct(kind):
        if classes - {dict}:
            return False
        rows = [value for value in values if value is not None]
        return all(_is_plain(each.type, [row.get(each.name) for row in rows]) for each in kind)
    if is_list(kind):
        if classes - {list}:
            return False
        lists = (value for value in values if value is not None)
        return _is_plain(kind.value_type, list(chain.from_iterable(lists)))
    if pa.types.is_timestamp(kind):
        exact = kind.unit in ("us", "ns") and classes <= {datetime.datetime}
        return exact and (kind.tz is not None or all(v is None or not v.tzinfo for v in values))
    return any(matches(kind) and classes <= plain for matches, plain in _PLAIN)


def _fit(kind: pa.DataType, path: str) -> Fit | None:
    """Return the function for values of a type; None if pyarrow never loses anything of them."""
    for matches, make in _BY_TYPE:
        if matches(kind):
            return make(kind, path)
    return None


def _of_struct(kind: pa.DataType, path: str) -> Fit:
    fits = {field.name: _fit(field.type, f"{path}.{field.name}") for field in kind}

    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if not isinstance(value, Mapping):
            raise UnfitError(path, f"{quoted(value)} is no dictionary")
        held = {}
        for name, each in fits.items():
            inner = value.get(name)
            held[name] = inner if inner is None or each is None else each(inner)
        return held

    return fit


def _of_list(kind: pa.DataType, path: str) -> Fit:
    each = _fit(kind.value_type, f"{path}[]")

    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if not _is_listed(value):
            raise UnfitError(path, f"{quoted(value)} is no list")
        if each is None:
            return value
        return [None if item is None else each(item) for item in value]

    return fit


def _of_map(kind: pa.DataType, path: str) -> Fit:
    key, item = _fit(kind.key_type, f"{path}{{}}"), _fit(kind.item_type, f"{path}{{}}")

    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if not _is_listed(value) and not isinstance(value, Mapping):
            raise UnfitError(path, f"{quoted(value)} is no dictionary")
        return [
            (k if key is None else key(k), v if v is None or item is None else item(v))
            for k, v in _pairs(value)
        ]

    return fit


def _of_integer(_kind: pa.DataType, path: str) -> Fit:
    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if isinstance(value, _OTHER):
            raise UnfitError(path, f"{quoted(value)} is no whole number")
        if isinstance(value, numbers.Integral) or not isinstance(value, numbers.Real):
            return value
        number = float(value)
        if not number.is_integer():
            raise UnfitError(path, f"{quoted(value)} is no whole number", fraction=True)
        return int(number)

    return fit


def _of_float(kind: pa.DataType, path: str) -> Fit:
    most = _LARGEST_FLOAT if pa.types.is_float32(kind) else math.inf

    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if isinstance(value, _OTHER):
            raise UnfitError(path, f"{quoted(value)} is no number")
        if isinstance(value, numbers.Real) and most < abs(float(value)) < math.inf:
            raise UnfitError(path, f"{quoted(value)} is too large and would become infinite")
        return value

    return fit


def _of_text(_kind: pa.DataType, path: str) -> Fit:
    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if not isinstance(value, str | bytes):
            raise UnfitError(path, f"{quoted(value)} is no text")
        return value

    return fit


def _of_date(_kind: pa.DataType, path: str) -> Fit:
    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if isinstance(value, str):
            return _parsed(_DATE, datetime.date.fromisoformat, value, path, "a date (YYYY-MM-DD)")
        if isinstance(value, datetime.datetime | numbers.Number):
            raise UnfitError(path, f"{quoted(value)} is no date")
        return value

    return fit


def _of_time(kind: pa.DataType, path: str) -> Fit:
    digits = _DIGITS[kind.unit]

    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if isinstance(value, str):
            return _time_of(value, digits, path)
        if isinstance(value, numbers.Number):
            raise UnfitError(path, f"{quoted(value)} is a number, and no time")
        if isinstance(value, datetime.time):
            if value.tzinfo is not None:
                raise UnfitError(path, f"{value} has a zone, which would be lost")
            if digits < _MICROS and value.microsecond % 10 ** (_MICROS - digits):
                raise UnfitError(path, f"{value} is finer than the column")
        return value

    return fit


def _of_timestamp(kind: pa.DataType, path: str) -> Fit:
    digits, zoned = _DIGITS[kind.unit], kind.tz is not None

    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if isinstance(value, str):
            return _timestamp_of(value, digits, path, zoned=zoned)
        if isinstance(value, numbers.Number):
            raise UnfitError(path, f"{quoted(value)} is a number, and no time")
        if isinstance(value, datetime.datetime):
            if value.tzinfo is not None and not zoned:
                raise UnfitError(path, f"{value} has a zone, which would be lost")
            if digits < _MICROS and value.microsecond % 10 ** (_MICROS - digits):
                raise UnfitError(path, f"{value} is finer than the column")
        elif isinstance(value, datetime.date) and not zoned:
            return datetime.datetime.combine(value, datetime.time())
        return value

    return fit


def _time_of(text: str, digits: int, path: str) -> Any:  # noqa: ANN401 - a time or a number
    """Return the time that a text states; whole nanoseconds where Python's times are too coarse."""
    match = _TIME.fullmatch(text)
    _refuse_digits(match, digits, text, path)
    time = _parsed(_TIME, datetime.time.fromisoformat, text, path, "a time (HH:MM:SS)")
    fraction = "" if match is None else match["fraction"] or ""
    if digits <= _MICROS or len(fraction) <= _MICROS:
        return time
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return seconds * 10**9 + int(fraction.ljust(9, "0"))


def _timestamp_of(text: str, digits: int, path: str, *, zoned: bool) -> Any:  # noqa: ANN401
    """Return the time that a text states; whole nanoseconds where Python's times are too coarse."""
    match = _TIMESTAMP.fullmatch(text)
    _refuse_digits(match, digits, text, path)
    if match is not None and zoned != (match["zone"] is not None):
        lacks = "states no zone (Z or an offset)" if zoned else "states a zone, which would be lost"
        raise UnfitError(path, f"{quoted(text)} {lacks}")
    form = "a time (YYYY-MM-DDTHH:MM:SS)"
    moment = _parsed(_TIMESTAMP, datetime.datetime.fromisoformat, text, path, form)
    fraction = "" if match is None else match["fraction"] or ""
    if digits <= _MICROS or len(fraction) <= _MICROS:
        return moment
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    micros = (since - (moment.utcoffset() or datetime.timedelta())) // _MICROSECOND
    return micros * 1_000 + int(fraction[_MICROS:].ljust(3, "0"))


def _refuse_digits(match: re.Match[str] | None, digits: int, text: str, path: str) -> None:
    fraction = "" if match is None else (match["fraction"] or "").rstrip("0")
    if len(fraction) > digits:
        raise UnfitError(path, f"{quoted(text)} is finer than the column")


def _parsed(form: re.Pattern[str], parse: Fit, text: str, path: str, what: str) -> Any:  # noqa: ANN401
    """Return what a text of a form states; Python ignores what is finer than a microsecond."""
    try:
        if form.fullmatch(text) is not None:
            return parse(text)
        why = f"{quoted(text)} is not {what}"
    except ValueError as error:  # such as a 31st of April
        why = f"{quoted(text)} is not {what}: {error}"
    raise UnfitError(path, why)


def _of_extension(kind: pa.DataType, path: str) -> Fit | None:
    if kind != pa.uuid():
        return _fit(kind.storage_type, path)

    def fit(value: Any) -> Any:  # noqa: ANN401 - any value of a row
        if not isinstance(value, str):
            return value
        try:
            return uuid.UUID(value).bytes
        except ValueError:
            raise UnfitError(path, f"{quoted(value)} is no UUID") from None

    return fit


def _is_listed(value: object) -> bool:
    """Return True for values that become a list; a text is none, and a dictionary neither."""
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:  # noqa: ANN401 - any value of a row
    """Return the entries of a map; none of a value that is none."""
    if isinstance(value, Mapping):
        return value.items()
    return value if _is_listed(value) else ()


_BY_TYPE: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str], Fit | None]], ...
] = (
    (pa.types.is_integer, _of_integer),
    (pa.types.is_floating, _of_float),
    (pa.types.is_string, _of_text),
    (pa.types.is_timestamp, _of_timestamp),
    (pa.types.is_date, _of_date),
    (pa.types.is_time, _of_time),
    (pa.types.is_struct, _of_struct),
    (is_list, _of_list),
    (pa.types.is_map, _of_map),
    (lambda kind: isinstance(kind, pa.BaseExtensionType), _of_extension),
)
