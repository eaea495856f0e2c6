"""Reports of failures: one sentence on stderr with the next step, and an exit code.

0 done    1 failed    2 wrong usage    130 stopped by Ctrl-C    141 the reader of a pipe left
143 stopped by SIGTERM
"""

from __future__ import annotations

import errno
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

from firnline.errors import (
    FirnlineError,
    OutputLostError,
    ReaderGoneError,
    StoppedError,
    TerminatedError,
    UsageError,
)
from firnline.store.base import Changes

UNEXPECTED = 1

_PROGRAM = "firnline"
_LONGEST = 300

TAKE_A_TABLE = (
    *("alerts test", "analyze", "append", "certificate", "changes", "cleanup", "cost", "delete"),
    *("diff", "downgrade", "drop", "drop-table", "erase", "evolve", "history", "hold"),
    *("hold end", "hold put", "hold show", "import", "merge", "mirror"),
    *("parts", "plan merge", "properties", "properties apply", "properties show", "read"),
    *("rebuild", "relocate", "repartition", "replace", "restore", "rewrite", "schema"),
    *("schema fix", "schema show", "settings show", "snapshot", "sweep", "timeline", "ttl"),
    *("update", "verify", "what-if", "witness"),
)
"""Commands whose first argument is a table; not ``clone``, which takes two."""
TAKE_SETTINGS = (
    *("doctor", "erasure", "erasure ask", "erasure bundle", "erasure run", "erasure show"),
    *("erasure withdraw", "fleet", "health", "init", "pools", "settings check", "tables"),
)
"""Commands without a first argument TABLE that read a settings file."""
_COMMANDS = "|".join(sorted((*TAKE_A_TABLE, *TAKE_SETTINGS), key=len, reverse=True))
_SHOWN = re.compile(rf"`{_PROGRAM} (?P<command>{_COMMANDS})(?P<rest>(?: [^`]*)?)`")
_MORE = {"schema fix": (" --column", " --column COLUMN --type TYPE")}
"""Command -> the option without which it does not run, and what is added then."""


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
    roots: ClassVar[dict[str, str]] = {}
    """Root as a word of a shell -> name."""
    settings: Path | None = None
    """Of ``--settings``."""
    manner: Manner = Manner()
    reached: str | None = None
    """The last that the operation told of its progress."""
    sent: int = 0
    """Requests of ``Changes`` before this command line."""
    done: ClassVar[list[str]] = []
    """What was done outside of any store, each as a clause."""
    only_here: ClassVar[list[str]] = []
    """What nothing but the output has, and the output does not have yet."""


def given(name: str, target: str, settings: Path | None, root: str = "") -> None:
    """Let commands in messages name a table as this command line does.

    Args:
        name: of the table, as messages have it.
        target: what was typed: the name, or a root, whose name no settings file may have.
        settings: of ``--settings``.
        root: of the table; a message that names it by that gets what was typed.
    """
    settings_given(settings)
    if root:
        _Begun.roots[shlex.quote(root)] = name
    _Begun.tables[name] = shlex.quote(target) + _settings()


def settings_given(settings: Path | None) -> None:
    """Let commands in messages name the file of ``--settings``, if there is one."""
    _Begun.settings = settings


def nothing_begun(manner: Manner | None = None) -> None:
    """Forget the operation: another command line begins in this process."""
    _Begun.sentence = _Begun.reached = None
    _Begun.manner = manner or Manner()
    _Begun.settings = None
    _Begun.sent = Changes.sent
    for noted in (_Begun.tables, _Begun.roots, _Begun.done, _Begun.only_here):
        noted.clear()


def done(clause: str) -> None:
    """Note what the command has done outside of any store, such as ``rows.csv is written``.

    An interrupt from here on says so, and no longer what it would have said before.
    """
    _Begun.done.append(clause)
    _Begun.sentence = _Begun.reached = None


def only_here(note: str) -> None:
    """Note what is stored nowhere: if the output does not get to show it, the failure does."""
    _Begun.only_here.append(note)


def output_written() -> None:
    """Note that the output is written, with what is only there."""
    _Begun.only_here.clear()


def settings_read(path: Path | None) -> None:
    """Tell which settings file a command reads, if nobody would expect it; with ``--debug`` always.

    Args:
        path: of the file; None: none has the table.
    """
    from firnline.settings.load import BESIDE, places_here

    if _Begun.manner.as_json:
        return
    if _Begun.manner.debug:
        sys.stderr.write(printable(f"settings: {path or 'none'}") + "\n")
    elif path == BESIDE and path not in places_here() and not _named():
        note = f"firnline: settings of {path}, since this folder has none; --settings or "
        sys.stderr.write(printable(note) + "FIRNLINE_TABLES name others\n")


def _named() -> bool:
    from firnline.settings.files import TABLES_VARIABLE

    return _Begun.settings is not None or bool(os.environ.get(TABLES_VARIABLE))


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
    message, step = _Begun.sentence or _stopped_anywhere()
    if _Begun.reached:
        message = message.replace("stopped;", f"stopped at {_Begun.reached};", 1)
    kind = TerminatedError if isinstance(interrupt, Terminated) else StoppedError
    return kind(message, next_step=step)


def _stopped_anywhere() -> tuple[str, str]:
    """Return message and next step for an interrupt of which no operation has said its effect."""
    if _changed():
        what = "some of the work is done" if _in_store() else _what_is_done()
        return f"stopped; {what}", f"{_see()} before you run it again"
    return "stopped; nothing was changed", "run the same command again"


def _changed() -> bool:
    return _in_store() or bool(_Begun.done)


def _in_store() -> bool:
    """Return True if requests were sent that may have changed a table.

    The requests are counted where they are sent, so no command has to tell.
    """
    return Changes.sent != _Begun.sent


def _what_is_done() -> str:
    names = " and ".join(_Begun.tables)
    changes = [f"the changes to {names} are made" if names else "the changes are made"]
    return " and ".join([*(changes if _in_store() else []), *_Begun.done])


def _see() -> str:
    if not _in_store():
        return "see what was done"
    # The history has no appends.
    return "see with `firnline history TABLE` and `firnline snapshot TABLE` what was done"


def output_lost(error: OSError) -> OutputLostError | None:
    """Return the error for output that could not be written; None if nobody has to know.

    Where something was changed, the same command line again would change more.
    """
    gone = isinstance(error, BrokenPipeError)
    full = error.errno == errno.ENOSPC
    why = "no space is left on its disk" if full else (error.strerror or "").lower()
    if _changed():
        kind = ReaderGoneError if gone else OutputLostError
        return kind(
            f"{_what_is_done()}, and only the output is incomplete: {why}",
            next_step=f"do not run the command again, but {_see()}",
        )
    if gone:
        return None
    return OutputLostError(
        f"the output cannot be written: {why}",
        next_step=f"write it elsewhere{', or free some space' if full else ''} and run the "
        "command again",
    )


@contextmanager
def with_report(failure: FirnlineError | None) -> Iterator[None]:
    """Print the report of a run: one that failed is told of, also if that cannot be printed.

    Args:
        failure: of the run; None: it did not fail.
    """
    try:
        yield
    except OSError as lost:
        if failure is None:
            raise
        failure.add_note(f"the report of this run cannot be printed: {lost.strerror}")
        raise failure from None


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
    for note in _Begun.only_here:
        error.add_note(note)
    output_written()
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
        return f"unexpected {shown}; {printable(_report())}"
    if error.listed:
        step = printable(error.next_step)
        lines = (f"  {printable(line)}" for line in error.listed)
        return "\n".join([printable(error.headline), *lines, f"{step[:1].upper()}{step[1:]}."])
    return printable(str(error))


def as_data(error: BaseException, *, debug: bool) -> dict[str, Any]:
    """Return the error as plain data for ``--json``."""
    if isinstance(error, FirnlineError):
        message, step, code = error.message, error.next_step, error.exit_code
    else:
        message, step, code = _one_line(str(error)), _report(), UNEXPECTED
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


def _report() -> str:
    """Return the next step after a bug of ours."""
    if not _changed():
        return "run again with --debug and report it"
    return f"report it, and {_see()} before you run it again"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return printable(line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…")


def printable(text: str) -> str:
    """Escape characters that a terminal would act on: names of keys and columns are not trusted."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in runnable(text)
    )


def warn(text: str) -> None:
    """Print a warning to stderr: what was asked for is done all the same."""
    sys.stderr.write(f"firnline: warning: {printable(text)}\n")


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
    for root, name in _Begun.roots.items():
        if rest[1:] == root or rest.startswith(f" {root} "):
            rest = f" {name}{rest[1 + len(root) :]}"
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
