"""Progress of a run: a bar on a terminal, occasional lines elsewhere, or JSON lines.

On stderr, so that what a command prints can be piped; warnings of the run appear above the bar.
``--progress`` chooses; without it a command with ``--json`` shows none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from firnline.cli.shown import Done, shown
from firnline.clock import Clock
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.appends.append import AppendProgress
    from firnline.mirror.progress import MirrorProgress
    from firnline.operations.deletion import DeleteProgress
    from firnline.operations.import_files.progress import ImportProgress
    from firnline.operations.rebuild.inventory import RebuildProgress
    from firnline.operations.relocate.run import RelocateProgress
    from firnline.operations.restore.run import RestoreProgress
    from firnline.operations.runner import Progress
    from firnline.operations.verify.run import VerifyProgress


def merging(
    table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[Progress], None]]:
    """Return the callback of a merge, which always shows the first and the last state."""

    def of(state: Progress) -> Done:
        parts = f"{state.parts_merged:,} of {counted(state.parts_in, 'part')}"
        groups = f"{state.groups_done:,} of {counted(state.groups, 'group')} committed"
        if state.tasks_done > state.groups_done:  # a partition is committed as a whole
            groups += f", {state.tasks_done:,} of {counted(state.tasks, 'task')} done"
        return Done(state.parts_merged, state.parts_in, "part", f"{parts}, {groups}")

    def ends(state: Progress) -> bool:
        return state.groups_done == state.groups

    return shown("merging", table, clock, of, silent=silent, ends=ends)


def reading(
    verb: str, table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[Progress], None]]:
    """Return the callback of a run that reads parts; ``verb`` is such as ``erasing from``."""

    def of(state: Progress) -> Done:
        if state.partitions:
            return Done(state.partitions_compared, state.partitions, "partition", state.compared)
        detail = f"{state.parts_merged:,} of {state.parts_in:,} parts read"
        return Done(state.parts_merged, state.parts_in, "part", detail)

    return shown(verb, table, clock, of, silent=silent)


def deleting(
    verb: str, table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[DeleteProgress], None]]:
    """Return the callback of a run that deletes; ``verb`` is such as ``cleaning up``."""

    def of(state: DeleteProgress) -> Done:
        return Done(state.deleted + state.failed, state.objects, "object", state.text)

    return shown(verb, table, clock, of, silent=silent)


def importing(
    table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[ImportProgress], None]]:
    """Return the callback of an import: of the footers, then of the tasks, then of the copies.

    A task takes a thousand times as long as a copy, so each of the three has a speed of its own.
    """

    def of(state: ImportProgress) -> Done:
        if state.footers:
            return Done(state.footers_done, state.footers, "footer", state.text)
        if state.tasks_done < state.tasks or not state.files:
            return Done(state.tasks_done, state.tasks, "task", state.text)
        return Done(state.files_done, state.files, "file", state.text)

    return shown("importing into", table, clock, of, silent=silent)


def appending(
    table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[AppendProgress], None]]:
    """Return the callback of an append of files."""

    def of(state: AppendProgress) -> Done:
        files = f"{state.files_done:,} of {state.files:,} files"
        detail = f"{files}, {state.rows_done:,} of {state.rows:,} rows"
        if state.rows_done == state.rows:
            detail += ", writing the last parts"
        return Done(state.rows_done, state.rows, "row", detail)

    return shown("appending to", table, clock, of, silent=silent)


def verifying(
    table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[VerifyProgress], None]]:
    """Return the callback of a check, which reads footers and then the rows of parts."""

    def of(state: VerifyProgress) -> Done:
        if state.parts:
            detail = f"rows of {state.parts_done:,} of {state.parts:,} parts read"
            return Done(state.parts_done, state.parts, "part", detail)
        detail = f"{state.footers_done:,} of {state.footers:,} footers read"
        return Done(state.footers_done, state.footers, "footer", detail)

    return shown("verifying", table, clock, of, silent=silent)


def footers(
    verb: str, table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[RebuildProgress], None]]:
    """Return the callback of a run that reads footers, such as ``rebuilding``."""

    def of(state: RebuildProgress) -> Done:
        detail = f"{state.footers_done:,} of {state.footers:,} footers read"
        return Done(state.footers_done, state.footers, "footer", detail)

    return shown(verb, table, clock, of, silent=silent)


def restoring(
    table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[RestoreProgress], None]]:
    """Return the callback of a restore, which counts the parts that it copies."""

    def of(state: RestoreProgress) -> Done:
        detail = f"{state.parts_done:,} of {state.parts:,} parts copied"
        return Done(state.parts_done, state.parts, "part", detail)

    return shown("restoring", table, clock, of, silent=silent)


def mirroring(
    table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[MirrorProgress], None]]:
    """Return the callback of a publication, whose stages follow each other in each format."""

    def of(state: MirrorProgress) -> Done:
        share, name = f"{state.done:,} of {state.total:,}", state.format.capitalize()
        unit, words = {
            "look": ("part", "parts looked through for deleted rows"),
            "describe": ("file", f"files described for the {name} mirror"),
            "write": ("file", f"files written to the {name} mirror"),
        }[state.stage]
        return Done(state.done, state.total, unit, f"{share} {words}")

    return shown("mirroring", table, clock, of, silent=silent)


@contextmanager
def counting(
    verb: str, what: str, clock: Clock, *, silent: bool, unit: str = "object"
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a callback that takes the number of units done and their total, if that is known."""

    def of(state: tuple[int, int | None]) -> Done:
        done, total = state
        if total is None:
            return Done(done, None, unit, f"{done:,} {unit}s")
        return Done(done, total, unit, f"{done:,} of {total:,} {unit}s")

    with shown(verb, what, clock, of, silent=silent, late=True) as tell:
        yield lambda done, total: tell((done, total))


def copying(
    verb: str, table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[RelocateProgress], None]]:
    """Return the callback of a run that writes objects to another place."""

    def of(state: RelocateProgress) -> Done:
        share = f"{state.objects_done:,} of {state.objects:,} objects"
        return Done(state.objects_done, state.objects, "object", share)

    return shown(verb, table, clock, of, silent=silent, late=True)


@contextmanager
def working(verb: str, what: str, clock: Clock, *, silent: bool) -> Iterator[None]:
    """Show that a run is under way that counts nothing: one transaction, or a plan."""

    def of(_: object) -> Done:
        return Done(0, None, "step", "")

    with shown(verb, what, clock, of, silent=silent, late=True):
        yield


@contextmanager
def sharing(
    verb: str, table: str, clock: Clock, *, silent: bool
) -> Iterator[Callable[[float], None]]:
    """Yield a callback that takes the share of a read that is done, between 0 and 1."""

    def of(share: float) -> Done:
        percent = int(100 * share)
        return Done(percent, 100, "percent", f"about {percent} % of the rows read")

    with shown(verb, table, clock, of, silent=silent, late=True) as tell:
        yield tell
