"""Standard streams of the command line: closed ones, and those that take no more.

Nobody reads what stderr does not take, so a run goes on as if that was the null device. A failure
of stdout is told apart from all others by its class: the command has been cut short while it told
what it did (``firnline.cli.failures.output_lost``).
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from firnline.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(OSError):
    """Standard output has not taken what was written to it."""


class ReaderLeftError(OutputError, BrokenPipeError):
    """Standard output is a pipe that nobody reads any more."""


class _Output(io.FileIO):
    """Standard output, whose failures are OutputError."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError as error:
            raise ReaderLeftError(error.errno, error.strerror) from None
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from None


class _Errors(io.FileIO):
    """Standard error, which never fails."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def take_over() -> None:
    """Replace the standard streams of this process by those of this module.

    A closed one becomes the null device, except for stdout, of which ``refuse_closed`` speaks. All
    three have their number afterwards: else the next file or socket that is opened would get it,
    and with it what a library writes to that number.
    """
    if sys.stdin is None:
        sys.stdin = open(_null(), encoding="utf-8")  # noqa: SIM115 - open for good
    if sys.stdout is None:
        _null()
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _text(sys.stdout, _Output)
    if sys.stderr is None:
        sys.stderr = open(_null(), "w", encoding="utf-8")  # noqa: SIM115 - open for good
    elif isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _text(sys.stderr, _Errors)


def _null() -> int:
    """Open the null device as the lowest free number, for the children of this process too."""
    number = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(number, True)
    return number


def _text(stream: io.TextIOWrapper, kind: type[io.FileIO]) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors="replace",  # a terminal without arrows gets a '?'
        line_buffering=stream.line_buffering or stream.write_through,
    )


def refuse_closed() -> None:
    """Raise UsageError if stdout is closed, before the command has done anything."""
    if sys.stdout is None:
        raise UsageError(
            "standard output is closed, and nothing was done",
            next_step="open it, or discard what is printed with >/dev/null",
        )


def flush() -> None:
    """Write what is buffered for stdout. Raises OutputError."""
    if sys.stdout is not None:
        sys.stdout.flush()


def forget() -> None:
    """Drop what is buffered for stdout: it must not fail again while the interpreter exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
