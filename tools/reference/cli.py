"""Option tables of docs/cli.md: one for every command of the typer app."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from firnline.cli.app import root_command
from tools.reference.markdown import code, prose, table

EVERY = "every command"
"""Block of the options that all commands have."""
PROGRAM = "firnline"
"""Block of the options that stand before the command."""
_EVERY = ("--settings", "--json", "--progress", "--debug")
_BY_SHELL = ("install_completion", "show_completion")
"""Typer's own; what they take depends on the shell that is found."""
_HEADER = ("option", "value", "default", "meaning")


@dataclass(frozen=True)
class Option:
    """An option or an argument of a command."""

    command: str
    names: str
    """As Markdown."""
    value: str
    default: str
    meaning: str
    """The help text; empty where none is written."""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """The cells of its row."""
        return self.names, self.value, self.default, prose(self.meaning)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command, such as ``plan merge``, with typer's object for it."""
    for name, command in _below(root_command()):
        below = list(_below(command))
        yield from [(f"{name} {inner}", each) for inner, each in below] or [(name, command)]


def _below(command: Any) -> list[tuple[str, Any]]:
    return list(getattr(command, "commands", {}).items())


def options(name: str, command: Any) -> list[Option]:
    """Return all options and arguments of a command, in the order of its help."""
    context = command.make_context(name, [], resilient_parsing=True)
    wanted = [each for each in command.params if each.name not in _BY_SHELL]
    return [_option(name, each, context) for each in wanted if not each.hidden]


def all_options() -> list[Option]:
    """Return the options of the program, and those of every command."""
    program = options(PROGRAM, root_command())
    return program + [each for name, command in commands() for each in options(name, command)]


def blocks() -> dict[str, str]:
    """Return the generated blocks of docs/cli.md by name."""
    common = _common()
    program = options(PROGRAM, root_command())
    found = {
        PROGRAM: table(_HEADER, [each.row for each in program]),
        EVERY: table(_HEADER, common),
    }
    for name, command in commands():
        found[f"firnline {name}"] = _block(name, command, common)
    return found


def _common() -> list[tuple[str, str, str, str]]:
    """Return the rows of TABLE and of the options of every command."""
    name, command = next(iter(commands()))
    known = {each.names: each.row for each in options(name, command)}
    return [known[code(each)] for each in ("TABLE", *_EVERY)]


def _block(name: str, command: Any, common: list[tuple[str, str, str, str]]) -> str:
    arguments = [_usage(each) for each in command.params if _is_argument(each)]
    usage = f"Usage: {code(' '.join(['firnline', name, *arguments, '[OPTIONS]']))}"
    rows = [each.row for each in options(name, command) if each.row not in common]
    if not rows:
        return f"{usage}, with the [options of every command](#options-of-every-command) alone."
    return f"{usage}\n\n{table(_HEADER, rows)}"


def _is_argument(each: Any) -> bool:
    return bool(each.param_type_name == "argument")


def _usage(argument: Any) -> str:
    name = _argument_name(argument) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _argument_name(argument: Any) -> str:
    return str(argument.metavar).strip("[].")


def _option(command: str, each: Any, context: Any) -> Option:
    if _is_argument(each):
        names, value = code(_argument_name(each)), ""
    else:
        spelled = [*each.opts, *each.secondary_opts]
        names = ", ".join(code(name) for name in spelled)
        shown, _ = each.get_help_record(context)
        choices = shown.removeprefix(" / ".join(spelled)).strip(" <>").split("|")
        value = " or ".join(code(choice) for choice in choices if choice)
    several = each.multiple or each.nargs == -1
    value += (", repeatable" if value else "repeatable") if several else _bounds(each)
    return Option(command, names, value, _default(each), each.help or "")


def _bounds(each: Any) -> str:
    if each.min is None:
        return ""
    return f", at least {each.min}" if each.max is None else f", {each.min} to {each.max}"


def _default(each: Any) -> str:
    if each.required:
        return "required"
    if each.secondary_opts and each.default is not None:
        return code((each.opts if each.default else each.secondary_opts)[0])
    if each.default is None or isinstance(each.default, bool):
        return ""
    return code(getattr(each.default, "value", each.default))
