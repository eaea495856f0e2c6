"""Conditions that may be switched off without anything going wrong, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Survivor:
    """A condition that no test misses, and need not."""

    module: str
    switch: str
    """As ``tests.mutations.conditions`` prints it."""
    why: str


SURVIVORS: tuple[Survivor, ...] = (
    Survivor(
        "transaction",
        "change.mend is not None -> True",
        "a conflict is refused before the commit as well",
    ),
    Survivor("transaction", "isinstance(error, StoreError) -> False", "wording"),
    Survivor(
        "transaction",
        (
            "base is None or not change.checkpoint or least is None or (len(base.snapshot"
            ".parts) <= least) -> base is None or not change.checkpoint or least is None"
        ),
        "`write_when_due` looks again: only Arrow is imported for nothing",
    ),
    Survivor(
        "transaction",
        "len(base.snapshot.parts) <= least -> len(base.snapshot.parts) < least",
        "`write_when_due` looks again",
    ),
    Survivor(
        "transaction",
        (
            "base is None or not change.checkpoint or least is None or (len(base.snapshot"
            ".parts) <= least) -> base is None or least is None or len(base.snapshot.part"
            "s) <= least"
        ),
        "speed: clean-up writes one checkpoint more",
    ),
    Survivor("transaction", "written.warning -> True", "only logged"),
    Survivor("transaction", "age > ttl -> age >= ttl", "the very millisecond"),
    Survivor(
        "transaction",
        "m.o is not None -> True",
        "new rows have no time yet, and 0 is that of no append",
    ),
    Survivor(
        "transaction",
        "not table.settings.primary_key or not spans -> not table.settings.primary_key",
        "speed: one LIST more",
    ),
    Survivor(
        "transaction",
        (
            "change.properties or base.properties or from_settings(table.settings) -> cha"
            "nge.properties or from_settings(table.settings)"
        ),
        "the settings in force say the same",
    ),
    Survivor(
        "transaction",
        (
            "base.properties or from_settings(base.table.settings) -> from_settings(base.t"
            "able.settings)"
        ),
        "the settings in force say the same",
    ),
    Survivor(
        "transaction",
        (
            "change.properties is None and current(known) == properties and (not disagree("
            "known)) -> current(known) == properties and (not disagree(known))"
        ),
        "a rival has given the table the same properties: they are in force already",
    ),
    Survivor("transaction", "base.properties is None -> True", "only logged"),
    Survivor(
        "transaction",
        "t > max(now, after) + dated.FAR_MS -> t >= max(now, after) + dated.FAR_MS",
        "the very millisecond",
    ),
    Survivor("transaction", "found -> True", "speed"),
    Survivor(
        "transaction",
        "not dated.is_over(line, snapshot.purged, used) -> True",
        "size of the log only: a record more, until the log file with the date is deleted",
    ),
    Survivor("fold", "gone -> True", "speed"),
    Survivor("fold", "best -> True", "speed"),
    Survivor(
        "fold",
        "m.tmb is None and m.p in paths -> m.tmb is None",
        "what is alive elsewhere is taken from a set that does not hold it",
    ),
    Survivor("fold", "i.name.seq -> True", "a tombstone has the time of a transaction"),
    Survivor("fold", "folded > cutoff -> folded >= cutoff", "the very millisecond"),
    Survivor(
        "fold",
        "marker.q is not None or not snapshot.times -> not snapshot.times",
        ("without transactions the sequence is 0, written or not; one that is known is itself"),
    ),
    Survivor(
        "fold",
        "marker.q is not None or not snapshot.times -> marker.q is not None",
        ("without transactions the sequence is 0, written or not; one that is known is itself"),
    ),
    Survivor(
        "fold",
        "marker.q is not None or not snapshot.times -> False",
        ("without transactions the sequence is 0, written or not; one that is known is itself"),
    ),
    Survivor(
        "fold",
        (
            "visible_since(snapshot, delete.id) > cutoff -> visible_since(snapshot, delet"
            "e.id) >= cutoff"
        ),
        "the very millisecond",
    ),
    Survivor(
        "log/dated",
        "not line.startswith(b'{\"dated\"') -> False",
        "speed: a line of another kind is decoded for nothing",
    ),
    Survivor("log/union", "known is not marker -> True", "a marker is united with itself"),
    Survivor("log/union", "a == b -> False", "speed: of two that are the same it makes one more"),
    Survivor("commit/outputs", "isinstance(error, FirnlineError) -> False", "only logged"),
    Survivor("commit/append_log", "age > ttl -> age >= ttl", "the very millisecond"),
    Survivor("commit/append_log", "isinstance(error, StoreError) -> False", "wording"),
    Survivor(
        "plan/cleanup_logs", "going -> True", "a round with nothing finds nothing, and ends it"
    ),
    Survivor("plan/cleanup_logs", "missing -> True", "speed"),
    Survivor(
        "plan/cleanup_logs",
        (
            "bool(missing) and (not missing.isdisjoint(without_superseded(rest.other | mi"
            "ssing))) -> not missing.isdisjoint(without_superseded(rest.other | missing))"
        ),
        "of nothing everything is said",
    ),
    Survivor(
        "plan/cleanup_logs", "snapshot.conflict -> False", "clean-up is refused on a conflict"
    ),
    Survivor(
        "plan/cleanup",
        "b.due <= now_ms and b.key in revived -> b.key in revived",
        "only what is told",
    ),
    Survivor(
        "plan/cleanup",
        "b.due <= now_ms -> b.due < now_ms",
        "only what is told, for the very millisecond",
    ),
    Survivor("plan/cleanup", "b.due > now_ms -> b.due >= now_ms", "the very millisecond"),
    Survivor(
        "plan/cleanup",
        (
            "bool(taken_parts and left_parts) and taken_parts[0].tmb == left_parts[0].tmb"
            " -> bool(taken_parts and left_parts)"
        ),
        "speed: one LIST more",
    ),
    Survivor("plan/cleanup", "timed -> True", "only what is told"),
    Survivor(
        "plan/cleanup",
        "marker.tmb is not None and marker.p in dead -> marker.tmb is not None",
        "what is noted of other parts is not read",
    ),
    Survivor("plan/cleanup", "m.tmb is not None -> True", "for the type: they are dead"),
    Survivor(
        "plan/cleanup",
        "meta.modified_ms < cutoff_ms -> meta.modified_ms <= cutoff_ms",
        "the very millisecond",
    ),
    Survivor(
        "plan/restore",
        "m.t > since.t -> m.t >= since.t",
        "what came with a transaction was there after it",
    ),
    Survivor("plan/restore", "', '.join(list(parts)[:5]) or 'none' -> 'none'", "wording"),
    Survivor(
        "plan/restore",
        "', '.join(list(parts)[:5]) or 'none' -> ', '.join(list(parts)[:5])",
        "wording",
    ),
    Survivor("plan/restore", "self.d or None -> self.d", "no deletes, written or not"),
    Survivor("plan/restore", "m.d or () -> m.d", "no deletes, written or not"),
    Survivor(
        "operations/rebuild",
        "marker.t <= t -> marker.t < t",
        "its own time and place are written once more",
    ),
    Survivor("operations/rebuild", "m.tmb -> True", "for the type: they are dead"),
    Survivor("plan/rebuild", "n is not None -> True", "for the type"),
    Survivor(
        "plan/rebuild",
        "verdict == 'live' and facts.key in replaced -> facts.key in replaced",
        "wording: what is out stays out",
    ),
    Survivor("plan/rebuild", "marker.tmb or 0 -> marker.tmb", "for the type: it is dead"),
    Survivor(
        "plan/rebuild",
        "m.tmb is not None and m.p in objects -> m.p in objects",
        "for the type: they are dead",
    ),
    Survivor(
        "plan/rebuild",
        "part is None -> True",
        "an append or a part of ours is asked about nowhere else",
    ),
    Survivor(
        "plan/rebuild",
        (
            "part is None or part.append or self.paths.may_be_another_tables(facts.key) -"
            "> part is None or part.append"
        ),
        "wording: it is asked about in any case",
    ),
    Survivor("plan/rebuild", "part.table or '(no prefix)' -> '(no prefix)'", "wording"),
    Survivor("plan/rebuild", "part.table or '(no prefix)' -> part.table", "wording"),
    Survivor(
        "plan/rebuild", "m.tmb or 0 -> m.tmb", "for the type: those alive were handled before"
    ),
    Survivor(
        "plan/rebuild",
        (
            "self.history.newest and latest < self.history.newest_at -> latest < self.his"
            "tory.newest_at"
        ),
        "without a transaction its time is 0",
    ),
    Survivor(
        "plan/rebuild",
        "latest < self.history.newest_at -> latest <= self.history.newest_at",
        "the very millisecond",
    ),
    Survivor(
        "plan/rebuild_names",
        (
            "facts.part is not None and facts.part.table != paths.prefix and (not paths.ma"
            "y_be_another_tables(facts.key)) and any((key in keys for key in inputs_of(fac"
            "ts) for keys in known)) -> facts.part is not None and (not paths.may_be_anoth"
            "er_tables(facts.key)) and any((key in keys for key in inputs_of(facts) for ke"
            "ys in known))"
        ),
        "the name of today is believed before former ones are asked about",
    ),
    Survivor(
        "plan/rebuild_copies",
        "part is None or not part.append -> part is None",
        "merged parts are judged without it",
    ),
    Survivor(
        "plan/rebuild_copies",
        (
            "isinstance(one, int) and isinstance(other, int) and (one != other) -> isinst"
            "ance(other, int) and one != other"
        ),
        "both are of one column's type",
    ),
    Survivor(
        "plan/rebuild_copies",
        (
            "isinstance(one, int) and isinstance(other, int) and (one != other) -> isinst"
            "ance(one, int) and one != other"
        ),
        "both are of one column's type",
    ),
    Survivor(
        "plan/keys",
        "new.o is not None -> True",
        "new rows have no time yet, and 0 is that of no part",
    ),
    Survivor(
        "plan/keys",
        "span[0] < span[1] -> span[0] <= span[1]",
        "no other part lies within one millisecond",
    ),
    Survivor("plan/keys", "span[0] < span[1] -> True", "no other part lies within one millisecond"),
    Survivor(
        "plan/keys", "not settings.primary_key or not since -> not settings.primary_key", "speed"
    ),
    Survivor(
        "plan/keys", "place(marker) < last -> place(marker) <= last", "no two parts have one place"
    ),
    Survivor(
        "plan/keys",
        (
            "below and marker.t in since and (marker.p not in planned.parts) -> below and"
            " marker.t in since"
        ),
        "what a later transaction brought was not there",
    ),
    Survivor("plan/keys", "place(m) < last -> place(m) <= last", "no two parts have one place"),
    Survivor("plan/keys", "left -> True", "of nothing nothing is kept back, and that ends it"),
    Survivor(
        "plan/keys",
        "place(m) < place(part) -> place(m) <= place(part)",
        "no two parts have one place",
    ),
    Survivor(
        "plan/keys",
        (
            "version is not None and _above(theirs, stats, version, schema) -> _above(the"
            "irs, stats, version, schema)"
        ),
        "no column has no name",
    ),
    Survivor(
        "plan/keys",
        (
            "known is None or key is None or known[2] or (known[0] is None) or (known[1] "
            "is None) -> known is None or known[2] or known[0] is None or (known[1] is No"
            "ne)"
        ),
        "statistics are only of types that have an order",
    ),
    Survivor(
        "plan/keys",
        (
            "known is None or key is None or known[2] or (known[0] is None) or (known[1] "
            "is None) -> known is None or key is None or known[2] or (known[0] is None)"
        ),
        "a column has both bounds or none",
    ),
    Survivor(
        "plan/keys",
        (
            "known is None or key is None or known[2] or (known[0] is None) or (known[1] "
            "is None) -> known is None or key is None or known[2] or (known[1] is None)"
        ),
        "a column has both bounds or none",
    ),
    Survivor(
        "operations/restore", "on_progress or (lambda _: None) -> lambda _: None", "only progress"
    ),
    Survivor(
        "operations/restore", "on_progress or (lambda _: None) -> on_progress", "only progress"
    ),
    Survivor("operations/restore", "folders[source] or '-' -> folders[source]", "wording"),
    Survivor("operations/restore", "done % _TELL_EVERY == 0 -> True", "only progress"),
    Survivor("operations/restore", "done % _TELL_EVERY == 0 -> False", "only progress"),
    Survivor("operations/restore", "not times -> False", "speed"),
    Survivor(
        "operations/remains",
        "facts.part is not None or not known.columns -> not known.columns",
        "a part of ours holds no column of its path but the table's",
    ),
    Survivor(
        "operations/remains",
        (
            "on_progress is not None and len(footers) % _TELL_EVERY == 0 -> len(footers) "
            "% _TELL_EVERY == 0"
        ),
        "only progress",
    ),
    Survivor(
        "operations/remains",
        ("on_progress is not None and len(footers) % _TELL_EVERY == 0 -> on_progress is not None"),
        "only progress",
    ),
    Survivor(
        "operations/remains",
        "on_progress is not None and len(footers) % _TELL_EVERY == 0 -> False",
        "only progress",
    ),
    Survivor("operations/remains", "on_progress is not None -> False", "only progress"),
    Survivor("operations/remains", "len(footers) % _TELL_EVERY == 0 -> False", "only progress"),
    Survivor(
        "operations/remains",
        "name.seq -> False",
        "changes of the schema say themselves when they were, and nothing else is asked about",
    ),
    Survivor("operations/remains", "error is not None -> False", "wording"),
    Survivor(
        "state/health",
        "item.name.seq -> True",
        "no transaction has number 0, and the highest is asked for",
    ),
    Survivor(
        "state/health",
        "content.x is not None -> True",
        "for the type: the log file of a transaction says which it is",
    ),
    Survivor(
        "state/health",
        "self._txns is not None and self._txns.born -> self._txns.born",
        "for the type: it is asked once a log was read",
    ),
    Survivor(
        "state/health",
        "before is None or before == txns -> before is None",
        "what has not changed is judged as before: one GET more",
    ),
    Survivor("state/health", "isinstance(store, ObjectClient) -> False", "speed"),
    Survivor("state/health", "isinstance(store, ObjectClient) -> True", "speed"),
    Survivor(
        "state/health",
        "_youngest_ms(meta) < before -> _youngest_ms(meta) <= before",
        "the very millisecond",
    ),
    Survivor(
        "state/health",
        "txns.newest > published -> txns.newest >= published",
        "speed: the transactions are read once more",
    ),
    Survivor(
        "state/health",
        "txns.newest > published -> True",
        "speed: the transactions are read once more",
    ),
    Survivor(
        "log/checkpoint_file",
        (
            "at < len(SUM) or data[at:at + len(ZEROS)] != b'%08x' % found -> data[at:at +"
            " len(ZEROS)] != b'%08x' % found"
        ),
        "without the text, the sum would have to stand in a Parquet file's first page header",
    ),
    Survivor(
        "log/checkpoint_file",
        "at < len(SUM) -> at <= len(SUM)",
        "a Parquet file begins with other bytes",
    ),
    Survivor("log/checkpoint_file", "len(chunk) -> True", "an empty chunk is an empty array"),
    Survivor(
        "log/checkpoint_file",
        "len(codes) -> True",
        "no row group is empty, and without one there is no chunk",
    ),
    Survivor("checkpoint", "gone -> True", "of no keys a batch delete sends nothing"),
    Survivor(
        "operations/cleanup",
        "options.dry_run -> True",
        "with nothing to do nothing is planned to go",
    ),
    Survivor(
        "operations/cleanup",
        "base.seq >= TXN_KEPT -> base.seq > TXN_KEPT",
        "one old transaction goes a run later",
    ),
    Survivor(
        "operations/cleanup",
        "m.tmb is not None and m.tmb > snapshot.purged -> m.tmb is not None",
        "only parts that are due are looked up in it",
    ),
    Survivor(
        "operations/cleanup",
        "m.tmb is not None and m.tmb > snapshot.purged -> True",
        "only parts that are due are looked up in it",
    ),
    Survivor(
        "operations/cleanup",
        "m.tmb > snapshot.purged -> m.tmb >= snapshot.purged",
        "only parts that are due are looked up in it",
    ),
    Survivor(
        "operations/cleanup",
        "least is None or len(snapshot.parts) <= least -> least is None",
        "`renew` looks again: only Arrow is imported for nothing",
    ),
    Survivor(
        "operations/cleanup",
        "least is None or len(snapshot.parts) <= least -> False",
        "`renew` looks again: only Arrow is imported for nothing",
    ),
    Survivor(
        "operations/cleanup",
        "len(snapshot.parts) <= least -> len(snapshot.parts) < least",
        "`renew` looks again: only Arrow is imported for nothing",
    ),
    Survivor(
        "operations/cleanup",
        "written.warning -> True",
        "only logged",
    ),
    Survivor(
        "properties",
        (
            "section in given and key in getattr(settings, section).model_fields_set -> ke"
            "y in getattr(settings, section).model_fields_set"
        ),
        "a section that is left out names nothing",
    ),
    Survivor(
        "properties",
        "isinstance(value, tuple | list) -> False",
        "both are tuples: `_plain` has made them",
    ),
    Survivor(
        "properties",
        "table is None or table == from_settings(settings) -> table is None",
        "speed: the same values are set once more",
    ),
    Survivor(
        "log/properties",
        "self.seq -> False",
        "a transaction states one set of values",
    ),
    Survivor(
        "log/properties",
        "known is not record -> True",
        "a record that is united with itself stays as it is",
    ),
    Survivor(
        "operations/properties",
        "base.properties is None -> False",
        "for the type: None is plain already",
    ),
)
