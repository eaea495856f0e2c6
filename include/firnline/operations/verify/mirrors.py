"""Verify, of mirrors: that they read, and show a state that the log confirms."""

from __future__ import annotations

from collections.abc import Container

from firnline.commit.base import stated
from firnline.errors import (
    LogLostError,
    MirrorCatalogError,
    MirrorDamagedError,
    MirrorRefusedError,
)
from firnline.mirror.changes import state_of
from firnline.mirror.delta.head import Head, read_head
from firnline.mirror.delta.hiding import wrongly_hidden
from firnline.mirror.delta.replay import Shown, replay
from firnline.mirror.delta.vectors import index_of, missing_vectors
from firnline.mirror.hold import parts_with_deletes
from firnline.mirror.iceberg.where import AGAIN, where_is
from firnline.mirror.position import Position
from firnline.mirror.retention import lacks_since
from firnline.operations.mirror.words import again
from firnline.operations.verify.findings import Findings
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table
from firnline.types.formats import refusals
from firnline.units import about_duration, counted


def check_mirrors(table: Table, findings: Findings, snapshot: Snapshot | None) -> None:
    """Compare the newest version of each mirror with the log.

    Requests: 1 GET for a table whose log states no properties and whose settings name a mirror;
    those of ``read_head`` and ``replay`` of a Delta mirror, and 1 LIST and 1 GET if it
    has deletion vectors; of ``read_view`` of an Iceberg mirror; none for a table without a mirror.
    Those of ``read_snapshot`` where a mirror shows a part that the state does not name.

    Args:
        table: the table, under its own properties.
        findings: takes what is found.
        snapshot: the state; None when the log does not read as a whole.
    """
    if snapshot is None:
        return
    _check_stated(table, findings, snapshot)
    _check_columns(table, findings, snapshot)
    if table.settings.delta is not None:
        _check_delta(table, findings, snapshot)
    if table.settings.iceberg is not None:
        _check_iceberg(table, findings, snapshot)


def _check_stated(table: Table, findings: Findings, snapshot: Snapshot) -> None:
    """Report mirrors that nobody publishes, since a table without properties states none.

    One that has properties is made to state them by the first publication.
    """
    named = (table.wanted or table.settings).mirrors
    if not named or snapshot.properties or not snapshot.listing:
        return
    if stated(table, snapshot, born=True) is None:
        name = table.settings.name
        findings.add(
            "warning", "mirror-unstated", table.paths.log_dir,
            f"does not state mirror: [{', '.join(named)}], which the settings name, nor any other "
            "property, so the planner does not publish it and clean-up keeps no part for it",
            f"run `firnline properties apply {name}`; the first merge does it too",
        )  # fmt: skip


def _check_columns(table: Table, findings: Findings, snapshot: Snapshot) -> None:
    """Report columns by which a mirror stays where it is, without a wait for it to lag."""
    folders = {"delta": table.paths.delta_dir, "iceberg": table.paths.iceberg_dir}
    for name in table.settings.mirrors:
        for error in refusals([name], table.settings.name, snapshot.schema):
            findings.add("warning", "mirror-refused", folders[name], error.message, error.next_step)


def _check_iceberg(table: Table, findings: Findings, snapshot: Snapshot) -> None:
    folder = table.paths.iceberg_dir
    try:
        where_is(table)
        from firnline.mirror.iceberg.view import read_view

        view = read_view(table)
    except (MirrorCatalogError, MirrorRefusedError) as error:
        findings.add("note", "mirror-unchecked", folder, error.message, error.next_step)
        return
    except MirrorDamagedError as error:
        findings.add("warning", "mirror-damaged", folder, error.message, error.next_step)
        return
    if view is None:
        _check_second(table, findings, folder)
        return
    _check_lag(table, findings, folder, view.position, snapshot)
    _check_files(table, findings, folder, view.position, view.keys, snapshot, AGAIN)


def _check_second(table: Table, findings: Findings, folder: str) -> None:
    """Report a mirror without a table of its name, and one that has another name in the catalog."""
    from firnline.mirror.iceberg.catalog import open_catalog
    from firnline.mirror.iceberg.head import refuse_second

    try:
        warning = refuse_second(table, open_catalog(table))
    except MirrorRefusedError as error:
        findings.add("warning", "mirror-renamed", folder, error.message, error.next_step)
        return
    except MirrorCatalogError as error:
        findings.add("note", "mirror-unchecked", folder, error.message, error.next_step)
        return
    findings.add(
        "note", "mirror-missing", folder, warning or "has no table in the Iceberg catalog yet",
        "run `firnline mirror`",
    )  # fmt: skip


def _check_delta(table: Table, findings: Findings, snapshot: Snapshot) -> None:
    folder = table.paths.delta_dir
    try:
        head = read_head(table.store, table.paths)
        if head is None:
            findings.add(
                "note", "mirror-missing", folder, "has no version of the mirror yet",
                "run `firnline mirror`",
            )  # fmt: skip
            return
        shown = replay(table.store, table.paths, head.version, head.listing)
    except MirrorDamagedError as error:
        findings.add("warning", "mirror-damaged", folder, error.message, error.next_step)
        return
    key = table.paths.delta_version(head.version)
    _check_lag(table, findings, key, head.position, snapshot)
    damage = shown.damage(head.position)
    if damage is not None:
        findings.add("warning", "mirror-damaged", key, damage, again(table.settings.name))
    keys = frozenset(map(table.paths.delta_key, shown.files))
    _check_files(table, findings, key, head.position, keys, snapshot, again(table.settings.name))
    _check_vectors(table, findings, head, shown, snapshot)


def _check_lag(
    table: Table, findings: Findings, key: str, position: Position, snapshot: Snapshot
) -> None:
    now, grace = table.clock.now_ms(), table.settings.cleanup.grace
    since = lacks_since(snapshot, position.seq, position.at)
    if since is not None and now - since >= grace:
        lag = about_duration(now - position.at)
        findings.add(
            "warning",
            "mirror-behind",
            key,
            f"shows transaction {position.seq}, read {lag} ago, and the newest is "
            f"{snapshot.seq}; clean-up keeps parts for it",
            "run `firnline mirror`, and see what it says",
        )


def _check_files(
    table: Table,
    findings: Findings,
    key: str,
    position: Position,
    shown: frozenset[str],
    snapshot: Snapshot,
    remedy: str,
) -> None:
    """Compare the files of the newest version, whose own key it is, with the log."""
    before = findings.counts.total()
    _check_shown(table, findings, position, shown, snapshot, remedy)
    state = state_of(snapshot)
    if (position.seq, position.seen) == (state.seq, state.seen):
        for part in sorted(snapshot.live.keys() - shown):
            findings.add(
                "warning", "mirror-missing-part", part,
                f"is live, and the mirror of transaction {position.seq} does not show it",
                remedy,
            )  # fmt: skip
    if findings.counts.total() == before and len(shown) != position.files:
        findings.add(
            "warning", "mirror-damaged", key,
            f"shows {counted(len(shown), 'file')}, and states {position.files}",
            remedy,
        )  # fmt: skip


def _check_shown(
    table: Table,
    findings: Findings,
    position: Position,
    shown: frozenset[str],
    snapshot: Snapshot,
    remedy: str,
) -> None:
    # The mirror was read after the log: it may show what has landed in between.
    later = _named_since(table) if not shown <= snapshot.parts.keys() else ()
    for key in sorted(shown):
        marker = snapshot.parts.get(key)
        if marker is None and key in later:
            continue
        if marker is None:
            findings.add(
                "warning", "mirror-unknown-part", key,
                "is shown by the mirror, and no log file names it",
                remedy if position.seq == snapshot.seq else "run `firnline mirror`",
            )  # fmt: skip
        elif marker.tmb is not None and marker.tmb <= position.t:
            findings.add(
                "warning", "mirror-dead-part", key,
                f"is shown by the mirror, and was dead in the state {position.seq} that it states",
                remedy,
            )  # fmt: skip


def _named_since(table: Table) -> Container[str]:
    """Return the parts that the log names by now; none of a log that is lost."""
    try:
        return read_snapshot(table.store, table.paths, tolerant=True).parts
    except LogLostError:
        return ()  # a finding of the log's own check; parts that only a mirror shows are told too


def _check_vectors(
    table: Table, findings: Findings, head: Head, shown: Shown, snapshot: Snapshot
) -> None:
    """Compare the deletion vectors with their files, and with the deletes that hide rows."""
    store, paths, position = table.store, table.paths, head.position
    for path, vector in missing_vectors(store, paths, shown.vectors).items():
        findings.add(
            "warning", "mirror-vector-missing", paths.vectors(vector.file),
            f"has no deletion vector at {vector.offset}, which the mirror names for "
            f"{paths.delta_key(path)}",
            again(table.settings.name),
        )  # fmt: skip
    state = state_of(snapshot)
    if (position.seq, position.seen) != (state.seq, state.seen):
        return
    index = index_of(store, paths, position)
    for key in wrongly_hidden(snapshot, parts_with_deletes(snapshot), shown, index):
        findings.add(
            "warning", "mirror-hidden-rows", key,
            f"has rows that deletes hide, and the mirror of transaction {position.seq} hides "
            "others",
            again(table.settings.name),
        )  # fmt: skip
