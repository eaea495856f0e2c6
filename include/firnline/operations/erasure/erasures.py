"""Requests of erasure for programs and commands: all that can be done with them, on one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from firnline.arguments import typed
from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.bundle import check_free, write
from firnline.operations.erasure.ask import AskOptions, AskReport, ask
from firnline.operations.erasure.bundle import bundle_of
from firnline.operations.erasure.folder import open_folder
from firnline.operations.erasure.look import TableLook
from firnline.operations.erasure.plan import ErasurePlan
from firnline.operations.erasure.record import Closed
from firnline.operations.erasure.run import (
    Erases,
    ErasureReport,
    People,
    carry_out,
    look,
    settle,
    withdraw,
)
from firnline.operations.local import identity_of
from firnline.settings.load import load_settings
from firnline.store.access import StoreAccess
from firnline.table import open_table
from firnline.units import parse_utc


@dataclass(frozen=True, slots=True)
class Erasures:
    """The requests of people to be erased, and the tables with rows of people."""

    people: People
    by: str
    """Door that they are worked with by, as the history names it: ``cli`` or ``python``."""
    erases: Erases
    """Erases a batch from a table."""

    @typed
    def ask(
        self,
        keys: Path | str,
        *,
        received: str | None = None,
        due: str | None = None,
        without: Sequence[str] = (),
        reference: str = "",
    ) -> AskReport:
        """Take a request: its clock starts. Requests: as of ``ask.ask``.

        Args:
            keys: a CSV or Parquet file with the columns that tables name in ``person``.
            received: time in ISO 8601, in UTC without a zone; None: now.
            due: likewise; None: ``erasure.within`` after it was received.
            without: names of tables to leave out.
            reference: of the request in another system; everyone sees it.

        Raises UsageError: as of ``ask.ask``, or a time that is none.
        """
        options = AskOptions(
            keys=str(keys),
            received_ms=_time("received", received),
            due_ms=_time("due", due),
            without=tuple(without),
            reference=reference,
        )
        return ask(self.people, options, self._identity())

    def look(self, looked: Callable[[TableLook], object] = lambda _: None) -> ErasurePlan:
        """Return how far the open requests are; nothing is written. Requests: of ``run.look``.

        Args:
            looked: told after each table.
        """
        return look(self.people, looked)

    def run(self) -> ErasureReport:
        """Erase all requests that wait. It cannot be undone; nobody is asked.

        Before that the certificates whose grace is over are completed, and the requests closed that
        are certified in every table. Requests: of ``run.settle``, and of an erase for each table.

        Raises ErasureFailedError: some tables failed; the others are done.
        """
        plan, closed = settle(self.people, self._identity())
        return carry_out(self.people, plan, closed, self.erases)

    @typed
    def withdraw(self, request: str, why: str) -> Closed:
        """Close a request without carrying it out; its keys are deleted.

        Raises UsageError: there is no such request, it is closed, or no reason was given.
        """
        return withdraw(self.people, request, why, self._identity())

    @typed
    def bundle(self, request: str, folder: Path | str) -> tuple[Path, ...]:
        """Write what proves a request into a new folder. Returns the paths of the files.

        Raises UsageError: as of ``bundle.bundle_of``, or the folder cannot be written.
        """
        place = Path(folder)
        check_free(place)
        return write(place, bundle_of(self.people, request))

    def _identity(self) -> RunIdentity:
        folder = self.people.folder
        return identity_of(folder.ids, folder.clock, self.by)


def open_erasures(
    path: Path | str | None, access: StoreAccess | None, by: str, erases: Erases
) -> Erasures:
    """Open them by the settings; no request is sent.

    Args:
        path: of the settings file; None: the usual places.
        access: endpoint and credentials of the folder and of all tables; None: the environment's.
        by: as of ``Erasures``.
        erases: likewise.

    Raises:
        UsageError, SettingsError: the settings name no folder for them, or have mistakes.
    """
    settings = load_settings(path)
    found = StoreAccess.from_env() if access is None else access
    folder = open_folder(settings.erasure, found)
    people = People(folder, settings, lambda name: open_table(settings.table(name), found))
    return Erasures(people, by, erases)


def _time(what: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_utc(text)
    except ValueError:
        raise UsageError(
            f"{what} {text!r} is not a time", next_step="write 2026-11-02 or 2026-11-02T12:00"
        ) from None
