"""The ``firnline`` command: finds the subcommand and reports an error as one sentence."""

from __future__ import annotations

import errno
import functools
import gc
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from typing import Annotated, Any

import typer

from firnline.cli import streams
from firnline.cli.commands import (
    alerts,
    analyze,
    append,
    certificate,
    changes,
    cleanup,
    clone,
    cost,
    delete,
    demo,
    diff,
    doctor,
    downgrade,
    drop,
    erase,
    erasure,
    evolve,
    fleet,
    health,
    history,
    hold,
    import_files,
    init,
    merge,
    mirror,
    parts,
    properties,
    read,
    rebuild,
    relocate,
    repartition,
    replace,
    restore,
    rewrite,
    schema,
    settings,
    snapshot,
    spark,
    sweep,
    tables,
    timeline,
    ttl,
    update,
    verify,
    what_if,
    whole_table,
    witness,
)
from firnline.cli.failures import (
    Manner,
    end_by_sigterm,
    nothing_begun,
    output_lost,
    stopped,
    tell,
    usage,
)
from firnline.cli.words import instead
from firnline.errors import (
    LARGER_SCRATCH,
    FirnlineError,
    ReaderGoneError,
    ScratchFullError,
    UsageError,
)
from firnline.extras import explained

_HELP = """Maintain log-structured Parquet tables.

A TABLE is a name of the settings file or a root URL; credentials come from the environment and
the usual chain of the store's cloud.

\b
Examples:
  firnline append file:///tmp/t a.parquet b.parquet
  firnline parts flights
  firnline plan merge flights
  firnline merge flights --engine spark --master 'local[*]'

Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

app = typer.Typer(
    name="firnline",
    help=_HELP,
    # Plain help: panels cost 0.25 s at each start and break lines that users want to copy.
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


_OBJECTS = 50_000
"""Objects that are made before the next look for garbage, instead of 700."""
_COMPLETION = frozenset({"--show-completion", "--install-completion"})
"""Options that typer adds."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"firnline {version('firnline')}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Declare the options of the program; the version is printed by its callback."""


_GROUPS = (
    append,
    init,
    tables,
    health,
    cost,
    what_if,
    parts,
    timeline,
    read,
    merge,
    fleet,
    delete,
    erase,
    erasure,
    evolve,
    certificate,
    replace,
    rewrite,
    update,
    repartition,
    drop,
    whole_table,
    ttl,
    analyze,
    mirror,
    cleanup,
    sweep,
    verify,
    witness,
    rebuild,
    relocate,
    clone,
    downgrade,
    import_files,
    history,
    snapshot,
    diff,
    changes,
    restore,
    schema,
    properties,
    hold,
    settings,
    alerts,
    doctor,
    demo,
    spark,
)
for group in _GROUPS:
    app.add_typer(group.commands)


@functools.cache
def root_command() -> Any:  # noqa: ANN401 - typer's own
    """Return the command of all commands; made once, since nothing of a command line stays in it.

    Typer takes longer to make it than most command lines take in a process that runs many.
    """
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command line. Returns the exit code; errors have been printed by then."""
    manner = Manner.of(arguments)
    nothing_begun(manner)
    try:
        streams.refuse_closed()
        code = _invoke(arguments)
        # Not at the interpreter's exit: output that is lost must set the exit code.
        streams.flush()
        return code
    except streams.OutputError as error:
        streams.forget()
        lost = output_lost(error)
        return ReaderGoneError.exit_code if lost is None else tell(lost, manner)
    except KeyboardInterrupt as interrupt:
        failure: BaseException = stopped(interrupt)
    except FirnlineError as error:
        failure = error
    except OSError as error:
        failure = _of_a_file(error)
    except Exception as error:  # noqa: BLE001 - the last place to report a bug as a sentence
        failure = explained(error)
    code = tell(failure, manner)
    with suppress(streams.OutputError):  # the failure says more
        streams.flush()
        return code
    streams.forget()
    return code


@contextmanager
def _in_a_known_shell(arguments: Sequence[str]) -> Iterator[None]:
    """Raise UsageError where typer prints that it has no completion for the shell, and exits."""
    if not _COMPLETION.intersection(arguments):
        yield
        return
    answer = io.StringIO()
    try:
        with redirect_stdout(answer), redirect_stderr(io.StringIO()):
            yield
    except SystemExit:  # done
        sys.stdout.write(answer.getvalue())
        raise
    except typer.Exit as done:
        if done.exit_code == 0:
            raise
        raise UsageError(
            "there is no completion for this shell",
            next_step="start the command from bash, zsh or fish",
        ) from None


def _invoke(arguments: Sequence[str]) -> int:
    command = root_command()
    if "_FIRNLINE_COMPLETE" in os.environ:  # the shell asks for completions
        command.main(prog_name="firnline")
    try:
        # Not command.main(): it swallows Ctrl-C and a closed pipe.
        with (
            _in_a_known_shell(arguments),
            command.make_context("firnline", list(arguments)) as context,
        ):
            _refuse_contradiction(command, arguments)
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except _refusals() as error:
        where = getattr(error, "ctx", None)
        if where is not None and type(error).__name__ == "NoArgsIsHelpError":
            sys.stdout.write(where.get_help() + "\n")
            return 0
        if where:
            called = where.command_path
        else:  # `firnline schema fix`
            called = " ".join(name for name, _ in _path(command, arguments))
        message = error.format_message()
        options = [name for each in where.command.params for name in each.opts] if where else []
        raise usage(message, called, instead(message, options)) from error
    return 0


def _refusals() -> Any:  # noqa: ANN401 - a class of typer's or of click's
    """Return what typer raises for a command line that is none: older versions click's own."""
    return getattr(typer, "TyperException", None) or import_module("click").ClickException


def _refuse_contradiction(
    command: Any,  # noqa: ANN401 - typer's own
    arguments: Sequence[str],
) -> None:
    """Raise UsageError for both sides of one choice, of which typer would take the last."""
    *_, (_, called) = _path(command, arguments)
    for parameter in called.params:
        others = getattr(parameter, "secondary_opts", [])
        given = [side for side in (*parameter.opts, *others) if side in arguments]
        if others and len(given) > 1:
            raise UsageError(
                f"{' and '.join(given)} exclude each other", next_step="give one of them"
            )


def _path(
    command: Any,  # noqa: ANN401 - typer's own
    arguments: Sequence[str],
) -> Iterator[tuple[str, Any]]:
    """Yield the program and the commands that a command line names, one inside of another."""
    yield "firnline", command
    for word in arguments:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return
        yield word, command


def _of_a_file(error: OSError) -> BaseException:
    """Return the error about a file that cannot be read or written; others as they are."""
    if error.errno == errno.ENOSPC and error.filename is None:
        return ScratchFullError("no space is left on a local disk", next_step=LARGER_SCRATCH)
    if error.filename is None or not error.strerror:
        return explained(error)
    return FirnlineError(
        f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}",
        next_step="see whether this user may read and write there, or name another place",
    )


def main() -> None:
    """Entry point of the ``firnline`` script."""
    # Garbage is looked for among all that was imported: 1.6 % of the CPU time of a merge.
    gc.set_threshold(_OBJECTS)
    # The threads of a library that nothing here uses, which spin on a core when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    streams.take_over()
    end_by_sigterm()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
