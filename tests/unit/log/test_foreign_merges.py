"""Merges of clients of log version 1, found in what log files say of their inputs."""

from __future__ import annotations

import msgspec

from firnline.log.foreign_merges import ForeignMerges, find, may_hide_one
from firnline.log.reader import LogObject
from firnline.log.records import LogContent, LogTombstone, Marker, TxnMark
from firnline.log.union import union_parts
from firnline.paths import TablePaths

PATHS = TablePaths("t")
ID = "018bcfe5-6801-7000-8000-000000000001"


def log_of(*files: tuple[str, LogContent]) -> tuple[dict[str, LogObject], dict[str, LogContent]]:
    contents = dict(files)
    return {k: LogObject(PATHS.parse_log(k), 1, c.t) for k, c in contents.items()}, contents


def ours(t: int, *markers: Marker, seq: int = 1) -> tuple[str, LogContent]:
    mark = TxnMark(seq, ID, "merge", 0)
    return PATHS.txn_log(t, seq, ID), LogContent(t=t, schema={}, markers=list(markers), x=mark)


def theirs(t: int, *markers: Marker, folded: tuple[str, ...] = ()) -> tuple[str, LogContent]:
    stones = [LogTombstone(key, t) for key in folded]
    content = LogContent(t=t, schema={}, markers=list(markers), tombstones=stones)
    return f"{PATHS.log_dir}{t:013d}_m_host.jsonl", content


def alive(name: str, t: int, o: int | None = None) -> Marker:
    return Marker(name, 1, t, o=o)


def dead(name: str, tmb: int, t: int = 1) -> Marker:
    return Marker(name, 1, t, tmb)


def doubled(*files: tuple[str, LogContent]) -> dict[str, str]:
    listing, contents = log_of(*files)
    found = find(listing, contents).doubled(union_parts(contents.values()))
    return {each.part: each.of for each in found}


def found(*files: tuple[str, LogContent]) -> ForeignMerges:
    return find(*log_of(*files))


X = ours(50, dead("a", 50), dead("b", 50), alive("ab", 50, o=1))
F = theirs(60, dead("a", 60), dead("c", 60), alive("ac", 60))


def test_a_part_that_a_transaction_has_buried_before_is_in_their_part_once_more() -> None:
    assert doubled(X, F) == {"ac": "a"}
    assert found(X, F).inputs_only_here("ac") == {"c"}


def test_it_is_also_found_if_the_transaction_is_dated_later() -> None:
    later = ours(70, dead("a", 70), alive("a2", 70, o=1))
    assert doubled(later, F) == {"ac": "a"}


def test_a_merge_that_met_nothing_is_right() -> None:
    other = ours(50, dead("x", 50), alive("y", 50, o=1))
    assert doubled(other, F) == {}
    assert doubled(F) == {}
    assert doubled(X) == {}


def test_a_fold_of_theirs_that_repeats_a_merge_of_ours_is_no_merge_of_theirs() -> None:
    repeated = theirs(80, dead("a", 50), dead("b", 50), alive("ab", 50), folded=(X[0],))
    assert found(repeated).merges == ()
    assert doubled(X, theirs(80, dead("a", 50), dead("b", 50), alive("ab", 50))) == {}


def test_the_same_millisecond_is_told_by_the_file_of_the_transaction() -> None:
    same = theirs(50, dead("a", 50), dead("c", 50), alive("ac", 50))
    assert doubled(X, same) == {"ac": "a"}
    assert found(X, same).inputs_only_here("ac") == {"c"}


def test_what_was_made_of_a_wrong_part_is_wrong_and_is_taken_apart() -> None:
    again = theirs(90, dead("ac", 90, 60), dead("e", 90), alive("ace", 90))
    assert doubled(X, F, again) == {"ace": "a"}
    assert found(X, F, again).inputs_only_here("ace") == {"c", "e"}


def test_an_append_of_the_millisecond_of_a_drop_is_no_part_of_a_merge() -> None:
    drop = ours(50, dead("a", 50))
    append = (
        f"{PATHS.log_dir}{50:013d}_host.jsonl",
        LogContent(t=50, schema={}, markers=[alive("p", 50)]),
    )
    repeated = theirs(80, dead("a", 50), alive("p", 50), alive("q", 70))
    assert doubled(drop, append, repeated) == {}
    fold = ours(60, dead("a", 50), alive("p", 50), seq=2)
    assert doubled(drop, fold, repeated) == {}


def test_a_part_that_a_fold_of_ours_repeats_is_theirs_all_the_same() -> None:
    key, content = ours(90, alive("ac", 60), dead("c", 60), seq=2)
    content = msgspec.structs.replace(content, tombstones=[LogTombstone(F[0], 90)])
    assert doubled(X, F, (key, content)) == {"ac": "a"}


def test_a_removal_of_partitions_by_theirs_makes_no_part_and_doubles_nothing() -> None:
    assert doubled(X, theirs(60, dead("a", 60), dead("c", 60))) == {}


def test_parts_of_ours_that_only_transactions_tell_of_are_not_theirs() -> None:
    listing, contents = log_of(theirs(80, dead("a", 60), alive("ours", 70)))
    others = [{"ours": alive("ours", 70, o=1), "a": dead("a", 50)}]
    assert find(listing, contents, others).wrong == {}


def test_it_is_settled_once_the_part_is_dead() -> None:
    repaired = ours(99, dead("ac", 99, 60), alive("c2", 99, o=1), seq=2)
    assert doubled(X, F, repaired) == {}


def test_the_parts_of_a_checkpoint_or_of_transactions_count_too() -> None:
    listing, contents = log_of(F)
    others = {"a": dead("a", 50)}
    merges = find(listing, contents, [others])
    assert [d.of for d in merges.doubled(union_parts(contents.values()))] == ["a"]
    assert find(listing, contents, [{"a": dead("a", 60)}]).wrong == {}


def test_two_merges_of_theirs_of_one_part_are_both_wrong() -> None:
    other = theirs(65, dead("a", 65), dead("d", 65), alive("ad", 65))
    assert doubled(F, other) == {"ac": "a", "ad": "a"}
    assert found(F, other).inputs_only_here("ac") == {"a", "c"}


def test_a_checkpoint_over_their_merge_is_left_aside_where_a_newer_file_buries_what_is_dead() -> (
    None
):
    listing, contents = log_of(X, F)
    del contents[F[0]]
    parts = {"a": dead("a", 60), "c": dead("c", 60)}
    assert may_hide_one([F[0]], listing, contents, parts)
    assert may_hide_one([F[0]], listing, contents, {"a": dead("a", 50)}), "of one millisecond"
    assert not may_hide_one([F[0]], listing, contents, {"a": alive("a", 1)})
    assert not may_hide_one([X[0]], listing, contents, parts), "it covers no merge of theirs"
