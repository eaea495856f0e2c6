"""The one tree of errors: what happened, to which object, and what to do next.

Every error a user can meet is a ``FirnlineError``. Its text is one sentence that names the object
and ends with the next step; the class says whether a retry can mend it and which exit code the
command line ends with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar


class FirnlineError(Exception):
    """Root of the tree.

    Args:
        message: what happened, naming the object (table, key, column, setting).
        next_step: what the reader should do about it, in the imperative.
    """

    exit_code: ClassVar[int] = 1
    """What the command line ends with: 1 failed, 2 wrong usage."""
    retryable: bool = False
    """True where the same call may succeed later without anybody changing anything."""

    def __init__(self, message: str, *, next_step: str) -> None:
        super().__init__(f"{message}; {next_step}")
        self.message = message
        self.next_step = next_step

    def __reduce__(self) -> tuple[Any, ...]:
        # The default reduces to cls(*args), which loses the keyword: errors travel between the
        # processes of a Spark application.
        return _rebuild, (type(self), self.message, self.next_step)


def _rebuild(cls: type[FirnlineError], message: str, next_step: str) -> FirnlineError:
    error = cls.__new__(cls)
    FirnlineError.__init__(error, message, next_step=next_step)
    return error


class UsageError(FirnlineError):
    """The call itself is wrong: an unknown table, column, option or value."""

    exit_code = 2


class SettingsError(UsageError):
    """A settings file does not say what it must; names the file and the field."""


class PropertiesDifferError(UsageError):
    """Settings name another key or version than the table itself."""


class EnvironmentFaultError(UsageError):
    """Something this machine or deployment lacks: Java, a pool, a connection, a library."""


# --- the store ------------------------------------------------------------------------------------


class StoreError(FirnlineError):
    """The object store refused or did not do what was asked."""


class StoreUnavailableError(StoreError):
    """The store did not answer in time or asked to slow down, after every retry."""

    retryable = True


class StoreAccessError(StoreError):
    """Bucket, endpoint or credentials are wrong."""

    exit_code = 2


class ObjectNotFoundError(StoreError):
    """No object under this key."""


class ObjectExistsError(StoreError):
    """A create-only put found an object. It may be our own: read it back before believing it."""


class OutcomeUnknownError(StoreError):
    """A put was sent and no answer came: the object may or may not be there."""

    retryable = True


class StoreUnsafeError(StoreError):
    """The store overwrites an object on a create-only put: transactions would not exclude."""


# --- the log --------------------------------------------------------------------------------------


class LogCorruptError(FirnlineError):
    """A log or transaction file that does not parse; names the file and the line."""


class LogLostError(LogCorruptError):
    """Log files are gone that nobody may delete: what is left is not the table."""


class CheckpointError(FirnlineError):
    """A checkpoint that does not read or cannot be written: the log holds the same."""


class CheckpointVersionError(CheckpointError):
    """A checkpoint of a later version of firnline."""


class ForeignPathError(FirnlineError):
    """A marker or log tombstone that points outside its own table."""


class SchemaConflictError(FirnlineError):
    """Two log files give one column types that do not go together."""


class SnapshotExpiredError(UsageError):
    """The snapshot asked for lies at or before the purge horizon: parts of it are deleted."""


class StreamBehindError(UsageError):
    """A streaming read cannot say any more what it has not delivered yet, or cannot read it."""


class SnapshotUnstableError(FirnlineError):
    """The log kept changing under the reader for every attempt."""

    retryable = True


# --- parts ----------------------------------------------------------------------------------------


class PartGoneError(FirnlineError):
    """A live part has no object: the reader held its snapshot for longer than the grace."""

    retryable = True  # on a new snapshot; a part that is missing there as well fails again


class PartUnreadableError(FirnlineError):
    """A Parquet file that is cut, encrypted, or is no Parquet file."""


class PartSchemaError(FirnlineError):
    """A Parquet file whose columns or types do not fit the table."""


class ScratchFullError(FirnlineError):
    """The local disk for staging and spilling is full."""


class KernelError(FirnlineError):
    """A merge kernel failed for a reason that is none of the above."""


# --- transactions ---------------------------------------------------------------------------------


class TransactionError(FirnlineError):
    """A maintenance transaction did not commit; the table is as it was."""


class CommitConflictError(TransactionError):
    """A part that this transaction replaces is no longer live."""

    retryable = True


class CommitExpiredError(TransactionError):
    """The committer's snapshot is older than ``commit_ttl``."""

    retryable = True


class CommitUnknownError(TransactionError):
    """The commit was sent and nobody can say whether it took effect; nothing was deleted."""

    retryable = True


class AppendExpiredError(TransactionError):
    """An append took longer than ``append_ttl``; its rows were not published."""

    retryable = True


class ClockAheadError(TransactionError):
    """The clock of a writer is ahead of the store's; its rows were not published."""

    retryable = True


class AppenderFullError(FirnlineError):
    """An Appender has as many buffers under way as it may; the rows of this call were not taken."""

    retryable = True


class FlushFailedError(TransactionError):
    """Rows that an Appender was given earlier were not written; those of this call not taken."""


class RowCountMismatchError(TransactionError):
    """Rows in are not rows out + deleted + de-duplicated: nothing was committed."""


class InvariantError(TransactionError):
    """A log file about to be committed breaks a rule of the format: nothing was committed."""


class RunFailedError(FirnlineError):
    """A run ended with parts it could not handle; what completed is committed.

    Args:
        message: as of every error.
        next_step: as of every error.
        causes: names of the classes of what went wrong; the run is worth a retry when each is.
    """

    def __init__(self, message: str, *, next_step: str, causes: Iterable[str] = ()) -> None:
        super().__init__(message, next_step=next_step)
        known = [globals().get(name) for name in causes]
        self.retryable = bool(known) and all(
            isinstance(kind, type) and issubclass(kind, FirnlineError) and kind.retryable
            for kind in known
        )


class PlanChangedError(UsageError):
    """What somebody agreed to is no longer what the table holds; it has to be shown again."""


class TooMuchRemovedError(UsageError):
    """A rewrite would remove more rows than ``max_removed_fraction`` allows without force."""


class StoppedError(FirnlineError):
    """Ctrl-C, and what is safe now."""

    exit_code = 130  # 128 + SIGINT, as a shell shows it


class TerminatedError(StoppedError):
    """SIGTERM, and what is safe now."""

    exit_code = 143  # 128 + SIGTERM


class FindingsError(FirnlineError):
    """A check of a table found something; the report lists it."""
