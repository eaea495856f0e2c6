"""The exception hierarchy of firnline.

Every error a user can meet is a ``FirnlineError``. Its text is one sentence that names the object
and ends with the next step. The class states whether a retry can help, and the exit code of the
command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_LONGEST = 60
"""Characters of a value in a sentence."""

NAMED = 5
"""Names in a sentence: enough to see which they are, and few enough to read."""
CHOICES = 20
"""Names in a sentence that offers them for a choice, such as the columns of a table."""

DAMAGED_PART = (
    "restore the object from a backup or a version of the bucket; without one, `firnline drop` "
    "takes out its whole partition, with the rows of its other parts"
)
"""The next step for a part whose object is lost or does not read."""

LARGER_SCRATCH = (
    "free space there, or give it a larger disk (`--scratch` of the command, `spark.local.dir` or "
    "SPARK_LOCAL_DIRS for Spark, else TMPDIR)"
)
"""The next step for a local disk that is full: no part of the table is at fault."""


def cut(text: str) -> str:
    """Return what somebody has given as a sentence repeats it: its beginning if it is long."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def quoted(value: object) -> str:
    """Return a value in quotes, or as it is written, cut as above."""
    try:
        return cut(repr(value))
    except RecursionError:
        return f"a {type(value).__name__} of very many levels"


def some(names: Iterable[str], most: int = NAMED) -> str:
    """Return names as a sentence lists them: ``a, b and 3 more``.

    Args:
        names: all of them.
        most: how many are listed.
    """
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"


def first_line(error: BaseException) -> str:
    """Return what an error of a library says, in one line; its type if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class FirnlineError(Exception):
    """Base class of all errors.

    Args:
        message: what happened, naming the object (table, key, column, setting).
        next_step: what the user should do about it, in the imperative.
        listed: lines below the message, each of one thing that is wrong. Only they begin lines:
            a name within the message may hold whatever the store or a file has.
    """

    exit_code: int = 1
    """Exit code of the command line: 1 failed, 2 wrong usage."""
    retryable: bool = False
    """True if the same call may succeed later without any change."""

    def __init__(self, message: str, *, next_step: str, listed: Sequence[str] = ()) -> None:
        self.headline = message
        self.listed = tuple(listed)
        if listed:
            message += "".join(f"\n  {line}" for line in listed) + "\n"
        super().__init__(f"{message}; {next_step}")
        self.message = message
        self.next_step = next_step

    def __reduce__(self) -> tuple[Any, ...]:
        # The default reduces to cls(*args), which loses the keywords: errors travel between the
        # processes of a Spark application.
        return _rebuild, (type(self), self.headline, self.next_step, self.listed)


def _rebuild(
    cls: type[FirnlineError], headline: str, next_step: str, listed: Sequence[str]
) -> FirnlineError:
    error = cls.__new__(cls)
    FirnlineError.__init__(error, headline, next_step=next_step, listed=listed)
    return error


def raised_elsewhere(kind: str | None, message: str, next_step: str) -> FirnlineError:
    """Return an error that another process has raised and told in words.

    Args:
        kind: name of its class; FirnlineError for one that this module does not have.
        message: as of FirnlineError.
        next_step: likewise.
    """
    error: FirnlineError = globals().get(kind or "", FirnlineError)(message, next_step=next_step)
    return error


class UsageError(FirnlineError):
    """The call itself is wrong: an unknown table, column, option or value."""

    exit_code = 2


class NoTableError(UsageError):
    """There is no table at a root, and never was one."""


class NothingToDoError(UsageError):
    """There is nothing left to do; the command line prints that and exits with 0."""


class SettingsError(UsageError):
    """A settings file is invalid; names the file and the field."""


class PropertiesDifferError(UsageError):
    """The settings name another primary key or version column than the table itself."""


class EnvironmentFaultError(UsageError):
    """This machine or deployment lacks something: Java, a pool, a connection, a library."""


# --- the store ------------------------------------------------------------------------------------


class PlatformError(FirnlineError):
    """The platform that is to run a job gives no answer, or has no room now."""

    retryable = True


class JobFailedError(FirnlineError):
    """A job elsewhere ended without saying why."""

    retryable = True


class StoreError(FirnlineError):
    """The object store refused a request or did not carry it out."""


class StoreUnavailableError(StoreError):
    """The store did not answer in time or asked to slow down, after every retry."""

    retryable = True


class StoreAccessError(StoreError):
    """Bucket, endpoint or credentials are wrong."""

    exit_code = 2


class LinkRefusedError(StoreAccessError):
    """A symbolic link below the folder that a root URL names: nothing behind it is touched."""


class ObjectNotFoundError(StoreError):
    """There is no object under this key."""


class ObjectExistsError(StoreError):
    """A create-only put found an object. It may be the caller's own: read it back to find out."""


class OutcomeUnknownError(StoreError):
    """A put was sent and no answer came: the object may or may not be there."""

    retryable = True


class StoreUnsafeError(StoreError):
    """The store overwrites objects on a create-only put, so two transactions could both commit."""


# --- the log --------------------------------------------------------------------------------------


class LogCorruptError(FirnlineError):
    """A log file or transaction that cannot be parsed; names the file and the line."""


class LogLostError(LogCorruptError):
    """Log files that nothing may delete are missing: what is left is not the table."""


class CheckpointError(FirnlineError):
    """A checkpoint cannot be read or written; the log holds the same content."""


class CheckpointVersionError(CheckpointError):
    """A checkpoint was written by a later version of firnline."""


class ForeignPathError(FirnlineError):
    """A marker or log tombstone points outside its own table."""


class SchemaConflictError(FirnlineError):
    """Two log files give one column incompatible types."""


class DoubledRowsError(FirnlineError):
    """A client of log version 1 merged parts that were replaced or dropped meanwhile."""


class SnapshotExpiredError(UsageError):
    """The requested snapshot is at or before the purge horizon: some of its parts are deleted."""


class StreamBehindError(UsageError):
    """A streaming read can no longer tell, or read, what it has not delivered yet."""


class SnapshotUnstableError(FirnlineError):
    """The log kept changing under the reader for every attempt."""

    retryable = True


# --- mirrors --------------------------------------------------------------------------------------


class MirrorRefusedError(UsageError):
    """The table, or a state of it, has no place in the format of a mirror."""


class MirrorPlaceError(MirrorRefusedError):
    """The settings do not say where a mirror is that the table states; others may."""


class NotMirroredError(MirrorRefusedError):
    """The table does not state that it has a mirror, so clean-up would not wait for one."""


class MirrorDamagedError(FirnlineError):
    """Something in a mirror was not written by firnline, or is gone. The table is as it was."""


class MirrorCatalogError(FirnlineError):
    """The catalog of a mirror, or the library that speaks to it, does not do its work."""

    retryable = True


# --- parts ----------------------------------------------------------------------------------------


class PartGoneError(FirnlineError):
    """The object of a live part is gone: the reader held its snapshot for longer than the grace."""

    retryable = True  # on a new snapshot; a part that is missing there as well fails again


class PartUnreadableError(FirnlineError):
    """A file is truncated, encrypted, or not a Parquet file."""


class PartSchemaError(FirnlineError):
    """The columns or types of a Parquet file do not fit the table."""


class ScratchFullError(FirnlineError):
    """The local disk for staging and spilling is full."""


class KernelError(FirnlineError):
    """A merge kernel failed for another reason than the above."""


class RowsDifferError(FirnlineError):
    """The digests of rows do not add up: what was written, or read, is not what it should be."""


# --- transactions ---------------------------------------------------------------------------------


class TransactionError(FirnlineError):
    """A maintenance transaction did not commit; the table is as it was."""


class CommitConflictError(TransactionError):
    """A part that this transaction replaces is no longer live."""

    retryable = True


class CommitExpiredError(TransactionError):
    """The snapshot that a transaction is based on is older than ``commit_ttl``."""

    retryable = True


class CommitUnknownError(TransactionError):
    """The commit was sent, and it is unknown whether it took effect; nothing was deleted."""

    retryable = True


class AppendExpiredError(TransactionError):
    """An append took longer than ``append_ttl``; its rows were not published."""

    retryable = True


class ClockAheadError(TransactionError):
    """The clock of a writer is ahead of the store's; its rows were not published."""

    retryable = True


class AppenderFullError(FirnlineError):
    """An Appender has reached its limit of buffers; the rows of this call were not accepted."""

    retryable = True


class FlushFailedError(TransactionError):
    """Rows of an earlier call of an Appender were not written; those of this call not accepted."""


class RowCountMismatchError(TransactionError):
    """Rows in do not equal rows out + deleted + de-duplicated; nothing was committed."""


class InvariantError(TransactionError):
    """A log file about to be committed violates a rule of the format; nothing was committed."""


class RunFailedError(FirnlineError):
    """A run ended with parts that it could not process; what it completed is committed.

    Args:
        message: see ``FirnlineError``.
        next_step: see ``FirnlineError``.
        causes: class names of the underlying errors; the run is retryable if all of them are.
    """

    def __init__(self, message: str, *, next_step: str, causes: Iterable[str] = ()) -> None:
        super().__init__(message, next_step=next_step)
        kinds = [globals().get(name) for name in causes]
        self.retryable = bool(kinds) and all(
            isinstance(kind, type) and issubclass(kind, FirnlineError) and kind.retryable
            for kind in kinds
        )


class PlanChangedError(UsageError):
    """The table has changed since a plan was approved; the plan has to be shown again."""


class AssertionFailedError(UsageError):
    """Rows before and after a change do not hold what the user asserts of them."""


class PreparedChangeError(UsageError):
    """A prepared change cannot be committed or discarded as it is."""


class TooMuchRemovedError(UsageError):
    """More rows would go than ``max_removed_fraction`` of the operation allows without force."""


class StoppedError(FirnlineError):
    """The user pressed Ctrl-C; the message says what is safe."""

    exit_code = 130  # 128 + SIGINT, as a shell shows it


class TerminatedError(StoppedError):
    """The process got SIGTERM; the message says what is safe."""

    exit_code = 143  # 128 + SIGTERM


class SupervisorGoneError(StoppedError):
    """The process that started this one, and would have heard of its end, is gone."""

    exit_code = 129  # 128 + SIGHUP, as of a program whose terminal is gone
    retryable = True


class FindingsError(FirnlineError):
    """A check of a table has findings; the report lists them."""


class OutputLostError(FirnlineError):
    """What a command prints could not be written; the message says whether its work is done."""


class ReaderGoneError(OutputLostError):
    """The reader of a pipe went away before a command had printed what it has done."""

    exit_code = 141  # 128 + SIGPIPE, as a shell shows it
