"""Reports of failures: one sentence on stderr with the next step, and an exit code.

0 done    1 failed    2 wrong usage    130 stopped by Ctrl-C    141 the reader of a pipe left
143 stopped by SIGTERM
"""

from __future__ import annotations

import json
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
    reached: str | None = None
    """The last that the operation told of its progress."""


def given(name: str, target: str, settings: Path | None) -> None:
    """Let commands in messages name a table as this command line does.

    Args:
        name: of the table, as messages have it.
        target: what was typed: the name, or a root, whose name no settings file may have.
        settings: of ``--settings``.
    """
    typed = shlex.quote(target)
    if settings is not None:
        typed += f" --settings {shlex.quote(str(settings))}"
    _Begun.tables[name] = typed


def nothing_begun() -> None:
    """Forget the operation: another command line begins in this process."""
    _Begun.sentence = _Begun.reached = None
    _Begun.tables.clear()


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


def usage(message: str, command: str) -> FirnlineError:
    """Return the error for a command line that does not parse."""
    message = message.strip().rstrip(".").replace("Input should be", "must be")
    message = message.replace("Value error, ", "")
    return UsageError(message[:1].lower() + message[1:], next_step=f"see `{command} --help`")


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
        step = error.next_step
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


TAKE_A_TABLE = (
    *("analyze", "cleanup", "downgrade", "history", "merge", "mirror", "parts", "rebuild"),
    *("sweep", "verify"),
)
"""Commands that messages name alone, and that need a table and nothing else."""
_ALONE = re.compile(rf"`{_PROGRAM} ({'|'.join(TAKE_A_TABLE)})`")


def runnable(text: str) -> str:
    """Return a text whose commands name the table as this command line did.

    A command without a table gets that of the command line, if there is only one.
    """
    for name, typed in _Begun.tables.items():
        command = re.compile(rf"(`{_PROGRAM} (?:[a-z-]+ )+){re.escape(name)}(?=[ `])")
        text = command.sub(rf"\g<1>{_literal(typed)}", text)
    if len(_Begun.tables) == 1:
        (typed,) = _Begun.tables.values()
        text = _ALONE.sub(rf"`{_PROGRAM} \g<1> {_literal(typed)}`", text)
    return text


def _literal(text: str) -> str:
    return text.replace("\\", r"\\")
