"""Mistakes in mirrors: other engines would see rows that are gone, or miss some."""

from __future__ import annotations

from tests.mutations.model import Mutation

_CHANGES = "include/firnline/mirror/changes.py"
_CHANGES_TEST = ("tests/unit/mirror/test_changes.py",)
_HIDING = "include/firnline/mirror/delta/hiding.py"
_VECTORS_TEST = ("tests/unit/mirror/test_vectors.py",)
_PUBLISH_TEST = ("tests/unit/mirror/test_publish.py",)
_CATALOG_TEST = ("tests/unit/mirror/iceberg/test_in_catalog.py",)
_REST_TEST = ("tests/mirrors/test_rest.py",)
_READERS_TEST = ("tests/unit/mirror/iceberg/test_what_readers_use.py",)

MIRROR = (
    Mutation(
        name="a mirror does not count its files",
        file=_CHANGES,
        old="    if position.files + len(adds) - len(removed) != len(live):",
        new="    if len(adds) < 0:",
        breaks="Other engines see rows twice when two appends have the same millisecond.",
        caught_by=_CHANGES_TEST,
    ),
    Mutation(
        name="a mirror of a log that was made again is continued by the log",
        file=_CHANGES,
        old="    if len(kinds) < len(dates) or not _RESTARTS.isdisjoint(kinds.values()):",
        new="    if len(kinds) < len(dates):",
        breaks="After a rebuild other engines see parts that the table does not have.",
        caught_by=_CHANGES_TEST,
    ),
    Mutation(
        name="a mirror of last month is continued by the log",
        file=_CHANGES,
        old="    if first <= position.at <= last:",
        new="    if last >= 0:",
        breaks="Other engines miss appends whose log tombstones clean-up has left out.",
        caught_by=_CHANGES_TEST,
    ),
    Mutation(
        name="a merge with new rows changes no data",
        file=_CHANGES,
        old="    same = REARRANGES.issuperset(kinds.values()) and len(removed) == len(dead)",
        new="    same = REARRANGES.issuperset(kinds.values())",
        breaks="A stream of another engine never delivers the rows of some appends.",
        caught_by=_CHANGES_TEST,
    ),
    Mutation(
        name="a merge that loses rows changes no data",
        file=_CHANGES,
        old="    if same and _as_many(removed, made, left_out):",
        new="    if same:",
        breaks="A stream of another engine keeps rows that a merge has deleted.",
        caught_by=_CHANGES_TEST,
    ),
    Mutation(
        name="a mirror waits for no rename",
        file="include/firnline/mirror/hold.py",
        old="    if what.rename or what.drop:",
        new="    if what.drop:",
        breaks="Other engines see null in a column that was renamed lazily.",
        caught_by=_PUBLISH_TEST,
    ),
    Mutation(
        name="the guard is not among the features",
        file="include/firnline/mirror/delta/actions.py",
        old='        writer_features=("appendOnly", GUARD, *readers),',
        new='        writer_features=("appendOnly", *readers),',
        breaks="Another engine writes to the mirror, or deletes parts of the table by a VACUUM.",
        caught_by=_PUBLISH_TEST,
    ),
    Mutation(
        name="a path of a mirror is not encoded",
        file="include/firnline/paths.py",
        old='        return quote(key.removeprefix(self._root), safe="/=")',
        new="        return key.removeprefix(self._root)",
        breaks="Other engines do not find parts whose partition has an encoded character.",
        caught_by=("tests/mirrors/test_readers.py",),
        unit=None,
    ),
    Mutation(
        name="an upper bound of a time is rounded down",
        file="include/firnline/mirror/delta/stats.py",
        old="    ms = -(-nanoseconds // _MS) if up else nanoseconds // _MS",
        new="    ms = nanoseconds // _MS",
        breaks="Other engines skip files that hold a matching time.",
        caught_by=("tests/unit/mirror/test_columns.py",),
    ),
    Mutation(
        name="clean-up takes the newest version for one as old as the grace",
        file="include/firnline/mirror/delta/retention.py",
        old="    old = newest_of(listing, now_ms - grace)",
        new="    old = newest_of(listing, now_ms)",
        breaks="A reader of the mirror that began before its newest version misses parts.",
        caught_by=("tests/unit/mirror/test_retention.py",),
    ),
    Mutation(
        name="clean-up deletes parts that a mirror shows",
        file="include/firnline/operations/cleanup/plan.py",
        old="    all_ripe = [b for b in due if b.key not in held]",
        new="    all_ripe = [b for b in due if b.key not in revived]",
        breaks="Queries of other engines fail, because files of the newest version are gone.",
        caught_by=("tests/unit/mirror/test_retention.py",),
    ),
    Mutation(
        name="a state of long ago is published",
        file="include/firnline/mirror/delta/publish.py",
        old="    return lambda: table.clock.elapsed_ms() - began <= put_within(table.settings)",
        new="    return lambda: began <= put_within(table.settings) or True",
        breaks="A machine that was suspended publishes a state whose parts are deleted.",
        caught_by=_PUBLISH_TEST,
    ),
    Mutation(
        name="a newer record than the grace lets parts go",
        file="include/firnline/mirror/iceberg/shown.py",
        old="    old = [r.t for r in records.shown if r.modified_ms <= now_ms - grace]",
        new="    old = [r.t for r in records.shown]",
        breaks="A reader of the Iceberg mirror that began before its newest snapshot misses parts.",
        caught_by=_READERS_TEST,
    ),
    Mutation(
        name="a record is written before the catalog has taken the snapshot",
        file="include/firnline/mirror/iceberg/publish.py",
        old="        if _commit(table, found, position):",
        new="        put_record(table.store, table.paths, position.seq, position.t)\n"
        "        if _commit(table, found, position):",
        breaks="Clean-up deletes parts that the newest snapshot of the Iceberg mirror shows.",
        caught_by=_CATALOG_TEST,
    ),
    Mutation(
        name="a snapshot of somebody else is built upon",
        file="include/firnline/mirror/iceberg/head.py",
        old="    if snapshot is None or position is None:\n        raise _foreign",
        new="    if snapshot is None:\n        raise _foreign",
        breaks="Rows that another engine wrote stay in the Iceberg mirror.",
        caught_by=_CATALOG_TEST,
    ),
    Mutation(
        name="the mirror of another table is built upon",
        file="include/firnline/mirror/iceberg/head.py",
        old='    if root != opened.root.url.rstrip("/"):',
        new='    if not root or opened.root.url == "":',
        breaks="A REST catalog's table of this name that mirrors another root is no clear error.",
        caught_by=_REST_TEST,
    ),
    Mutation(
        name="a snapshot is not asserted to follow the one that was read",
        file="include/firnline/mirror/iceberg/commit.py",
        old="    opened.catalog.commit_table(head.table, tuple(requirements), tuple(updates))",
        new="    opened.catalog.commit_table(head.table, (), tuple(updates))",
        breaks="Of two publications at once the older state wins.",
        caught_by=_CATALOG_TEST,
    ),
    Mutation(
        name="the record of a file that goes states its bounds",
        file="include/firnline/mirror/iceberg/produce.py",
        old="    file = without_bounds(entry.data_file)",
        new="    file = entry.data_file",
        breaks="A certificate is complete while a manifest states values of erased rows.",
        caught_by=_READERS_TEST,
    ),
    Mutation(
        name="snapshots that would be read wrongly stay",
        file="include/firnline/mirror/iceberg/commit.py",
        old="        if schema is None or columns.misread(schema, mapping):",
        new="        if schema is None:",
        breaks="An older snapshot shows null, or another column, where there were values.",
        caught_by=_CATALOG_TEST,
    ),
    Mutation(
        name="a vector is kept when another delete comes",
        file=_HIDING,
        old="        if known is not None and known.deletes == each.ids and marker.p not in comes:",
        new="        if known is not None and marker.p not in comes:",
        breaks="Other engines see rows that a second delete has hidden.",
        caught_by=_VECTORS_TEST,
    ),
    Mutation(
        name="a file goes without its vector",
        file="include/firnline/mirror/delta/publish.py",
        old="        vector=_action(found.hidden.old.get(path)),",
        new="        vector=msgspec.UNSET,",
        breaks="Other engines see a file with a vector for ever, and its rows twice after a merge.",
        caught_by=_VECTORS_TEST,
    ),
    Mutation(
        name="vectors are written for paths by which Polars does not find them",
        file=_HIDING,
        old="    unfound = [each for each in hiding if not (plain and is_plain(each.marker.p))]",
        new="    unfound = [each for each in hiding if not plain]",
        breaks="Polars shows rows that are deleted.",
        caught_by=("tests/mirrors/test_vectors.py",),
        unit=None,
    ),
    Mutation(
        name="the vectors of parts that stay do not count when old ones expire",
        file="include/firnline/mirror/delta/expiry.py",
        old="    named = {paths.vectors(vector.file) for vector in index.values()}",
        new="    named = {paths.vectors(position.vectors)}",
        breaks="Queries of other engines fail, because vectors of the newest version are gone.",
        caught_by=_VECTORS_TEST,
    ),
    Mutation(
        name="a version with vectors looks like one without to older versions of firnline",
        file="include/firnline/mirror/delta/publish.py",
        old="        v=2 if DELETION_VECTORS in features else 1,",
        new="        v=1,",
        breaks="An older firnline removes files without their vectors, which then show rows twice.",
        caught_by=_VECTORS_TEST,
    ),
)
