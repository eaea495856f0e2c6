"""Fields of an operation's options: described once, for command lines, forms and Spark jobs.

The options of an operation are a ``msgspec.Struct`` (``operations.options``). A field that people
can set carries an ``Option``, which says in words what the type does not::

    max_bytes: Annotated[
        int | None, Option("Bytes to read at most", "Such as `10GiB`.", unit="size", least=1)
    ] = None

``cli.options`` makes options of the command line from it, ``airflow.params`` the params of a form,
``spark.job`` the arguments of a job. A field without an ``Option`` is set by code only.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from firnline.errors import UsageError, cut, quoted
from firnline.plain_values import plain
from firnline.units import format_duration, format_size, parse_duration, parse_size, parse_utc

OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)
Kind = Literal["flag", "number", "text", "texts", "choice", "scalar", "pairs"]
"""Shape of a value: ``texts`` is a list of text, ``pairs`` a mapping of names to scalars, and a
``scalar`` is a number or text."""
Unit = Literal["", "size", "duration", "time"]
"""Unit of a number that people write as text: bytes, milliseconds, unix milliseconds in UTC."""
Example = Literal["", "glob", "condition", "query"]
"""Kinds of examples in the description of an option: partitions, a condition on rows, a query."""
_KINDS: Mapping[object, Kind] = {bool: "flag", int: "number", str: "text"}


@dataclass(frozen=True, slots=True, repr=False)
class Option:
    """The words of an option; code in them stands in backticks."""

    title: str
    """Label in a form."""
    text: str
    """One or two sentences."""
    absent: str = ""
    """Noun phrase for what applies without a value: ``all partitions``."""
    in_form: str = ""
    """Sentence that a form shows in place of ``absent``."""
    metavar: str = ""
    """Placeholder of the value on a command line."""
    flag: str = ""
    """Name on the command line where it is not that of the field: ``--from``."""
    argument: bool = False
    """Positional on the command line."""
    form: bool = True
    """Forms ask for it."""
    unit: Unit = ""
    least: int | None = None
    """Least value; of a unit, in bytes or milliseconds."""
    most: int | None = None
    example: str = ""
    """Part of ``text`` for which a form of one table shows an example of that table."""
    example_of: Example = ""
    moment: bool = False
    """A scalar that is usually a time: forms show a date picker."""

    def __repr__(self) -> str:
        return repr(self.text)  # in help() of the options

    def text_for(self, examples: Mapping[Example, str]) -> str:
        """Return the text with the example of its kind, or with its own if there is none."""
        own = examples.get(self.example_of)
        return self.text if own is None else self.text.replace(self.example, own)


@dataclass(frozen=True, slots=True)
class OwnCheck:
    """Mark of a field whose struct checks it: its values may be of types that JSON lacks."""


@dataclass(frozen=True, slots=True)
class OptionField:
    """A field of an options struct, with its words."""

    name: str
    option: Option
    kind: Kind
    required: bool
    default: Any = dataclasses.field(hash=False)
    """Value of a field that was not given; None if it is required. It may be a mapping."""
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """Return the name on a command line."""
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def called(self) -> str:
        """Return the name in a sentence, with that of a command line where it is another one."""
        flag = self.option.flag
        other = flag and flag != f"--{self.name.replace('_', '-')}"
        return f"{self.name} ({flag})" if other else self.name

    def value(self, given: Any) -> Any:  # noqa: ANN401 - of any kind
        """Return the field's value for what a command line, a form or JSON gave.

        None and an empty list stand for a value that was not given: it is the default then, unless
        the field is required. An empty text does not: it comes of a variable that is not set, and
        in the place of a bound the default would be everything.

        Raises:
            UsageError: the value is empty, has another shape, is not of the unit, or is out of
                bounds.
        """
        absent = given is None or (isinstance(given, list | tuple) and not given)
        return self.default if absent and not self.required else self.parsed(given)

    def parsed(self, given: Any) -> Any:  # noqa: ANN401 - of any kind
        """Return the value of what was given. Texts of a unit become numbers, lists tuples.

        Raises UsageError as ``value``.
        """
        self._refuse_empty(given)
        if self.kind == "flag" and given is not None and not isinstance(given, bool):
            raise UsageError(
                f"{self.called} is neither true nor false: {quoted(given)}",
                next_step="write true or false",
            )
        if self.kind == "texts":
            return self._texts(given)
        if self.kind == "pairs":
            return given if isinstance(given, Mapping) else self._pairs(self._texts(given))
        value = self._number(given) if self.kind in ("number", "scalar") else given
        if isinstance(value, int) and not isinstance(value, bool):
            self._check_bounds(value, given)
        return value

    def _number(self, given: Any) -> Any:  # noqa: ANN401 - a scalar may be a text
        """Return the number of a text with a unit, or of a whole number of JSON."""
        if self.option.unit and isinstance(given, str):
            return _UNITS[self.option.unit](given)
        if self.kind == "number" and isinstance(given, float) and given.is_integer():
            return int(given)  # JSON has one kind of number
        return given

    def refuse_nothing(self, given: object) -> None:
        """Refuse a value that was given and says nothing.

        For a call in Python, which has what was given apart from what was not.

        Raises:
            UsageError: it is an empty text, or None where that is not what the field has without a
                value.
        """
        if given is None and (self.required or self.default is not None):
            raise UsageError(f"{self.called} is None", next_step=self._value_step)
        self._refuse_empty(given)

    def _refuse_empty(self, given: object) -> None:
        """Raise UsageError for a text, or one of a list, that is empty or blank."""
        several = isinstance(given, list | tuple)
        texts = given if isinstance(given, list | tuple) else (given,)
        if any(isinstance(each, str) and not each.strip() for each in texts):
            raise UsageError(
                f"{'one of ' * several}{self.called} is empty", next_step=self._value_step
            )

    @property
    def _value_step(self) -> str:
        """Return the next step for a value that says nothing."""
        without = f" for {self.option.absent}" if self.option.absent else ""
        return "write a value" + ("" if self.required else f", or leave it out{without}")

    def _check_bounds(self, value: int, given: object) -> None:
        """Raise UsageError if a value is out of bounds; the error says what was given."""
        least, most = self.option.least, self.option.most
        shown = _SHOWN.get(self.option.unit, str)
        if least is not None and value < least:
            raise UsageError(
                f"{self.called} is {cut(str(given))}, and the least is {shown(least)}",
                next_step="write a larger value" + ("" if self.required else ", or leave it out"),
            )
        if most is not None and value > most:
            raise UsageError(
                f"{self.called} is {cut(str(given))}, and the most is {shown(most)}",
                next_step="write a smaller value",
            )

    def _texts(self, given: object) -> tuple[str, ...]:
        globs = self.option.metavar == "GLOB"
        noun, example = ("globs", "ts_month=2013-*") if globs else ("texts", "first")
        return texts_of(self.called, given, noun, example)

    def _pairs(self, texts: tuple[str, ...]) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for text in texts:
            name, separator, value = text.partition("=")
            if not separator or not name:
                raise UsageError(
                    f"{self.flag} {quoted(text)} is not {self.option.metavar}",
                    next_step=f"write it as {self.flag} {self.option.metavar}",
                )
            if name in pairs:
                noun = "setting" if self.option.metavar.startswith("SETTING") else "column"
                raise UsageError(
                    f"{self.flag} names the {noun} {quoted(name)} twice",
                    next_step=f"give each {noun} once",
                )
            pairs[name] = value
        return pairs


def texts_of(name: str, given: object, noun: str, example: str) -> tuple[str, ...]:
    """Return a list of texts as a tuple; of nothing, an empty one.

    Args:
        name: of the option.
        given: the list.
        noun: what its texts are, in the plural.
        example: one of them.

    Raises:
        UsageError: it is no list or tuple, or has something else than texts.
    """
    values = () if given is None else given
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise UsageError(
            f"{name} is not a list of {noun}: {quoted(given)}",
            next_step=f'write it as ["{example}"], or leave it empty',
        )
    return tuple(values)


def parse_moment(value: object) -> int:
    """Return the unix milliseconds of a time in ISO 8601, in UTC without a zone.

    Raises:
        UsageError: not a time.
    """
    try:
        return parse_utc(str(value))
    except ValueError:
        raise UsageError(
            f"{quoted(value)} is not a time", next_step="write 2013-02-01 or 2013-02-01T12:00Z"
        ) from None


_UNITS: Mapping[str, Callable[[object], int]] = {
    "size": parse_size,
    "duration": parse_duration,
    "time": parse_moment,
}
_SHOWN: Mapping[str, Callable[[int], str]] = {"size": format_size, "duration": format_duration}


@functools.cache
def option_fields(options: type[msgspec.Struct]) -> tuple[OptionField, ...]:
    """Return the fields of an options struct that people can set, in its order.

    Raises:
        TypeError: a field has an ``Option`` and a type that no form can show.
    """
    fields = []
    for field in msgspec.structs.fields(options):
        words = [a for a in getattr(field.type, "__metadata__", ()) if isinstance(a, Option)]
        if words:
            members = _members(get_args(field.type)[0])
            kind, choices = _kind([one for one in members if one is not type(None)])
            fields.append(
                OptionField(field.name, words[0], kind, field.required, _default(field), choices)
            )
    return tuple(fields)


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.required else field.default


def checked(options: object, kind: type[OptionsT]) -> OptionsT:
    """Return options that were made in code, with values of the types that they declare.

    A struct takes what it is given: a text in the place of a list would be read letter by letter,
    and any text in the place of a flag would switch it on. Lists become tuples, texts of a unit
    (``10GiB``) numbers, as on the command line, and values of other libraries plain ones
    (``plain_values``). Fields without an ``Option`` are checked too.

    Args:
        options: what the caller gave.
        kind: the struct that it should be.

    Raises:
        UsageError: it is another struct, or a field has a value of another type.
    """
    if not isinstance(options, kind):
        raise UsageError(
            f"the options are of type {type(options).__name__}",
            next_step=f"give firnline.{kind.__name__}",
        )
    words = {field.name: field for field in option_fields(kind)}
    return kind(
        **{
            field.name: _checked(kind, field, words.get(field.name), getattr(options, field.name))
            for field in msgspec.structs.fields(kind)
        }
    )


def _checked(
    kind: type[msgspec.Struct],
    field: msgspec.structs.FieldInfo,
    words: OptionField | None,
    given: Any,  # noqa: ANN401 - of any kind
) -> Any:  # noqa: ANN401 - of the field's type
    if any(isinstance(a, OwnCheck) for a in getattr(field.type, "__metadata__", ())):
        return given
    value = plain(given)
    if isinstance(value, msgspec.Struct):
        value = checked(value, type(value))
    if words is not None and _is_given(value):
        value = words.parsed(value)
    elif field.type == tuple[str, ...]:
        value = _names(field.name, value)
    try:
        return msgspec.convert(value, field.type)
    except msgspec.ValidationError as error:
        said = str(error).replace("`", "").lower()
        raise UsageError(
            f"{kind.__name__}: {field.name} is not of its type: {said}",
            next_step=f"see help(firnline.{kind.__name__})",
        ) from None


def _names(name: str, given: object) -> tuple[str, ...]:
    """Return the texts of a list that has to be given. Raises UsageError for anything else."""
    if given is None:
        raise UsageError(f"{name} is None", next_step='write it as ["first"]')
    return texts_of(name, given, "texts", "first")


def _is_given(value: object) -> bool:
    """Return True unless it is what a field without a value has, which its type judges."""
    return value is not None and not (isinstance(value, list | tuple) and not value)


def _kind(members: Sequence[Any]) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind of a type, given as the members of its union, and its choices."""
    if len(members) > 1:
        return "scalar", ()
    single = members[0]
    if get_origin(single) is Literal:
        return "choice", get_args(single)
    if get_origin(single) is tuple and get_args(single) == (str, ...):
        return "texts", ()
    if get_origin(single) is dict:
        return "pairs", ()
    if single not in _KINDS:
        raise TypeError(f"an option cannot be of type {single}")
    return _KINDS[single], ()


def _members(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type of any form
    """Return the types of a union, or the one that it is."""
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return get_args(annotation) if is_union else (annotation,)
