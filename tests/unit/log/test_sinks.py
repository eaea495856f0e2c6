"""Records of a streaming sink: what is in the table, and what a fold may forget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.log.sinks import newest_batches, sink_record, without_superseded

OTHER = b'{"later":{"kind":1}}'
ODD = b'{"sink":{"query":7}}'
BATCHES = st.lists(st.tuples(st.sampled_from(["a", "b é"]), st.integers(0, 50)))


@pytest.mark.long
@given(BATCHES)
def test_a_fold_keeps_the_newest_batch_of_each_query(batches: list[tuple[str, int]]) -> None:
    lines = [sink_record(query, batch) for query, batch in batches]
    newest = {query: max(n for q, n in batches if q == query) for query, _ in batches}
    assert newest_batches(lines) == newest
    assert newest_batches(without_superseded(lines)) == newest
    assert len(without_superseded([*lines, *lines])) == len(newest)


def test_records_of_other_kinds_stay() -> None:
    lines = [OTHER, ODD, sink_record("a", 1), sink_record("a", 2)]
    assert without_superseded(lines) == sorted([OTHER, ODD, sink_record("a", 2)])
    assert newest_batches([OTHER, ODD]) == {}
