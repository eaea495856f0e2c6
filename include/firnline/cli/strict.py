"""Commands that refuse what the parser of command lines takes silently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from typer.core import TyperCommand

from firnline.errors import UsageError


def strict(may_be_empty: Collection[str] = ()) -> type[TyperCommand]:
    """Return the class of a command that refuses empty and repeated values of its options.

    Of an option that is given twice the parser takes the last value. An empty text comes of a
    variable of the shell that is not set; what it stands for, a bound or the id of a change, would
    be read as not given.

    Args:
        may_be_empty: parameters whose empty texts are values, or are refused in other words.
    """

    class Strict(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
            """Refuse, then parse. Raises UsageError."""
            if not ctx.resilient_parsing:  # of the shell's completion
                given, _, order = self.make_parser(ctx).parse_args(list(args))
                options = [each for each in order if each.param_type_name == "option"]
                if not any(each.is_eager for each in options):  # --help, whatever else there is
                    _refuse_repeated(options)
                    _refuse_empty(options, given, may_be_empty)
            parsed: list[str] = super().parse_args(ctx, args)
            return parsed

    return Strict


def _refuse_repeated(given: Iterable[Any]) -> None:
    """Raise UsageError for an option with one value that is given twice.

    The two sides of one choice are refused before (``cli.app``); a flag may be repeated.
    """
    seen = set()
    for option in given:
        once = not (option.multiple or option.is_flag or option.count)
        if once and option.name in seen:
            raise UsageError(f"{option.opts[0]} is given twice", next_step="give it once")
        seen.add(option.name)


def _refuse_empty(
    options: Iterable[Any], given: Mapping[str, Any], may_be_empty: Collection[str]
) -> None:
    for option in (each for each in options if each.name not in may_be_empty):
        value = given[option.name]
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and not text.strip() for text in texts):
            raise UsageError(
                f"{option.opts[0]} is empty",
                next_step="write a value" + ("" if option.required else ", or leave it out"),
            )
