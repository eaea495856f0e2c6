"""Reports of failures: one sentence on stderr with the next step, and an exit code.

0 done    1 failed    2 wrong usage    130 stopped by Ctrl-C    141 the reader of a pipe left
143 stopped by SIGTERM
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from firnline.errors import FirnlineError, StoppedError, TerminatedError, UsageError

UNEXPECTED = 1
PIPE_CLOSED = 141
"""128 + SIGPIPE."""


@dataclass(frozen=True, slots=True)
class Manner:
    """Options of failure reports."""

    as_json: bool = False
    debug: bool = False

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Manner:
        """Read the options from the bare arguments, since a command line may fail to parse."""
        options = list(arguments)
        if "--" in options:
            options = options[: options.index("--")]
        return cls("--json" in options, "--debug" in options)


class Terminated(KeyboardInterrupt):
    """SIGTERM was received; ends the command as Ctrl-C does."""


def end_by_sigterm() -> None:
    """Let SIGTERM end the command as Ctrl-C does, with a sentence on the state of the table.

    Only if Ctrl-C does so too, and only in the main thread, as Python requires.
    """

    def end(*_: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, end)


class _Begun:
    """The current command line: its tables and its operation that may have changed them."""

    sentence: tuple[str, str] | None = None
    tables: ClassVar[dict[str, str]] = {}
    """Name -> the arguments that name it on a command line like this one."""
    settings: Path | None = None
    """Of ``--settings``."""
    manner: Manner = Manner()
    reached: str | None = None
    """The last that the operation told of its progress."""


def given(name: str, target: str, settings: Path | None) -> None:
    """Let commands in messages name a table as this command line does.

    Args:
        name: of the table, as messages have it.
        target: what was typed: the name, or a root, whose name no settings file may have.
        settings: of ``--settings``.
    """
    settings_given(settings)
    _Begun.tables[name] = shlex.quote(target) + _settings()


def settings_given(settings: Path | None) -> None:
    """Let commands in messages name the file of ``--settings``, if there is one."""
    _Begun.settings = settings


def nothing_begun(manner: Manner | None = None) -> None:
    """Forget the operation: another command line begins in this process."""
    _Begun.sentence = _Begun.reached = None
    _Begun.manner = manner or Manner()
    _Begun.settings = None
    _Begun.tables.clear()


def settings_read(path: Path | None) -> None:
    """Tell which settings file a command reads, if nobody would expect it; with ``--debug`` always.

    Args:
        path: of the file; None: none has the table.
    """
    from firnline.settings.load import BESIDE, places_here

    if _Begun.manner.as_json:
        return
    if _Begun.manner.debug:
        sys.stderr.write(f"settings: {path or 'none'}\n")
    elif path == BESIDE and path not in places_here() and not _named():
        sys.stderr.write(
            f"firnline: settings of {path}, since this folder has none; --settings or "
            "FIRNLINE_TABLES name others\n"
        )


def _named() -> bool:
    return _Begun.settings is not None or bool(os.environ.get("FIRNLINE_TABLES"))


def reached(detail: str) -> None:
    """Let the message of an interrupt say how far the operation was."""
    _Begun.reached = detail


@contextmanager
def when_stopped(message: str, *, next_step: str) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM from here on into an error that states the effect on the table.

    Within the context it raises by itself; later, while the result is printed, by ``stopped``.
    """
    _Begun.sentence, _Begun.reached = (message, next_step), None
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise stopped(interrupt) from None


def stopped(interrupt: KeyboardInterrupt) -> StoppedError:
    """Return the error for Ctrl-C or SIGTERM: nothing has changed unless an operation began."""
    message, step = _Begun.sentence or (
        "stopped; nothing was changed",
        "run the same command again",
    )
    if _Begun.reached:
        message = message.replace("stopped;", f"stopped at {_Begun.reached};", 1)
    kind = TerminatedError if isinstance(interrupt, Terminated) else StoppedError
    return kind(message, next_step=step)


def usage(message: str, command: str, instead: str | None = None) -> FirnlineError:
    """Return the error for a command line that does not parse.

    Args:
        message: typer's.
        command: as far as it is known, for its help.
        instead: what to do; None: look at the help.
    """
    message = message.strip().rstrip(".").replace("Input should be", "must be")
    message = message.replace("Value error, ", "").replace(
        "must be a valid integer, unable to parse string as an integer", "must be a whole number"
    )
    if instead is not None:
        message = message.partition(". Did you mean")[0].partition(" (Possible options")[0]
    step = instead or f"see `{command} --help`"
    return UsageError(message[:1].lower() + message[1:], next_step=step)


def tell(error: BaseException, manner: Manner) -> int:
    """Print the failure to stderr and return the exit code."""
    stream = sys.stderr
    if manner.debug and not manner.as_json:
        stream.write("".join(traceback.format_exception(error)))
    if manner.as_json:
        stream.write(json.dumps({"error": as_data(error, debug=manner.debug)}) + "\n")
    else:
        notes = (f"  {printable(note)}\n" for note in getattr(error, "__notes__", []))
        stream.write(f"firnline: {sentence(error)}\n{''.join(notes)}")
    return error.exit_code if isinstance(error, FirnlineError) else UNEXPECTED


def sentence(error: BaseException) -> str:
    """Return the error as one sentence (a list of mistakes keeps its lines)."""
    if not isinstance(error, FirnlineError):
        what = _one_line(str(error))
        shown = f"{type(error).__name__}: {what}" if what else type(error).__name__
        return f"unexpected {shown}; {_REPORT}"
    if "\n" in error.message:
        step = printable(error.next_step)
        return (
            f"{printable(error.message.rstrip(), keep_lines=True)}\n{step[:1].upper()}{step[1:]}."
        )
    return printable(str(error))


def as_data(error: BaseException, *, debug: bool) -> dict[str, Any]:
    """Return the error as plain data for ``--json``."""
    if isinstance(error, FirnlineError):
        message, step, code = error.message, error.next_step, error.exit_code
    else:
        message, step, code = _one_line(str(error)), _REPORT, UNEXPECTED
    data: dict[str, Any] = {
        "type": type(error).__name__,
        "message": runnable(message),
        "next_step": runnable(step),
        "exit_code": code,
        "retryable": isinstance(error, FirnlineError) and error.retryable,
    }
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        data["notes"] = notes
    if debug:
        data["traceback"] = traceback.format_exception(error)
    return data


_PROGRAM = "firnline"
_REPORT = "run again with --debug and report it"
_LONGEST = 300


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return printable(line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…")


def printable(text: str, *, keep_lines: bool = False) -> str:
    """Escape characters that a terminal would act on: names of keys and columns are not trusted."""
    kept = "\n" if keep_lines else ""
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode()
        for c in runnable(text)
    )


def warn(text: str) -> None:
    """Print a warning to stderr: what was asked for is done all the same."""
    sys.stderr.write(f"firnline: warning: {printable(text)}\n")


TAKE_A_TABLE = (
    *("alerts test", "analyze", "append", "certificate", "changes", "cleanup", "cost", "delete"),
    *("diff", "downgrade", "drop", "erase", "evolve", "history", "import", "merge", "mirror"),
    *("parts", "plan merge", "properties", "properties apply", "properties show", "read"),
    *("rebuild", "relocate", "repartition", "replace", "restore", "rewrite", "schema"),
    *("schema fix", "schema show", "settings show", "snapshot", "sweep", "timeline", "ttl"),
    *("verify", "witness"),
)
"""Commands whose first argument is a table; not ``clone``, which takes two."""
TAKE_SETTINGS = ("doctor", "fleet", "health", "init", "pools", "settings check")
"""Commands without a first argument TABLE that read a settings file."""
_COMMANDS = "|".join(sorted((*TAKE_A_TABLE, *TAKE_SETTINGS), key=len, reverse=True))
_SHOWN = re.compile(rf"`{_PROGRAM} (?P<command>{_COMMANDS})(?P<rest>(?: [^`]*)?)`")
_MORE = {"schema fix": (" --column", " --column COLUMN --type TYPE")}
"""Command -> the option without which it does not run, and what is added then."""


def runnable(text: str) -> str:
    """Return a text whose commands name the table and the settings file as this command line did.

    A command without a table, or with the word TABLE, gets that of the command line, if there is
    only one.
    """
    return _SHOWN.sub(_completed, text)


def _completed(shown: re.Match[str]) -> str:
    command, rest = shown["command"], shown["rest"]
    if " --help" in rest:
        return shown[0]
    if command in TAKE_SETTINGS:
        return f"`{_PROGRAM} {command}{_settings() if ' --settings' not in rest else ''}{rest}`"
    option, added = _MORE.get(command, ("", ""))
    if option not in rest:
        rest += added
    return f"`{_PROGRAM} {command}{_with_table(rest)}`"


def _with_table(rest: str) -> str:
    """Return the words after a command with the table as it was typed."""
    first = rest[1:].partition(" ")[0]
    for name, typed in _Begun.tables.items():
        if rest[1:] == name or rest.startswith(f" {name} "):
            return f" {typed}{rest[1 + len(name) :]}"
    if len(_Begun.tables) == 1 and (first in ("", "TABLE") or first.startswith("-")):
        (typed,) = _Begun.tables.values()
        return f" {typed}{rest.removeprefix(' TABLE')}"
    return rest


def _settings() -> str:
    """Return the option that names the settings file of this command line, if it names one."""
    path = _Begun.settings
    return "" if path is None else f" --settings {shlex.quote(str(path))}"
