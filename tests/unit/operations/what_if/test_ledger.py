"""Requests of maintenance, added up."""

from __future__ import annotations

from firnline.operations.inspect.cost import COMMIT, Requests
from firnline.operations.what_if.ledger import Ledger


def test_a_reader_fetches_what_no_transaction_has_folded() -> None:
    ledger = Ledger()
    assert ledger.logs == 0
    for _ in range(4):
        ledger.append(0.5)  # appends of two parts
    assert ledger.logs == 2
    ledger.read_log(3)
    assert ledger.requests == Requests(list=6, get=6)
    ledger.fold(1, 4)
    assert ledger.logs == 1


def test_a_large_log_file_is_folded_only_by_what_is_worth_it() -> None:
    ledger = Ledger()
    ledger.fold(1, 100)
    ledger.append(1)
    ledger.fold(2, 5)
    assert ledger.logs == 2
    for _ in range(60):
        ledger.append(1)
    ledger.fold(3, 60)
    assert ledger.logs == 1


def test_a_merge_reads_its_inputs_and_writes_its_outputs_in_pieces() -> None:
    ledger = Ledger()
    ledger.merge(12, 40 * 2**20)
    ledger.slices(1, 12)
    ledger.write(1, 40 * 2**20)
    assert ledger.requests == Requests(get=12, put=5)
    ledger.slices(3, 12)
    assert ledger.requests == Requests(get=12 + 2 * 3 * 12, put=5)
    assert (ledger.parts_in, ledger.parts_out, ledger.bytes_in) == (12, 1, 40 * 2**20)


def test_a_clean_up_deletes_once_the_grace_is_over_and_else_does_nothing() -> None:
    ledger = Ledger()
    ledger.append(1)
    ledger.commit(1_000, dead=1_500)
    before = ledger.requests
    ledger.clean_up(1_500, 1_000, 2, idle=False)
    assert ledger.requests == before
    ledger.clean_up(2_000, 1_000, 2, idle=False)
    # The log twice, with the file that is folded; what is deleted, a LIST, and a transaction.
    read = Requests(list=2, get=2) * 2
    assert ledger.requests == before + read + Requests(list=1, delete=2) + COMMIT


def test_a_clean_up_by_a_clock_reads_the_log_in_vain_too() -> None:
    ledger = Ledger()
    ledger.append(1)
    ledger.clean_up(5_000, 1_000, 2, idle=True)
    assert ledger.requests == Requests(list=2, get=1)


def test_a_ledger_that_is_told_what_was_folded_knows_the_log_as_one_that_saw_the_appends() -> None:
    seen, told = Ledger(), Ledger()
    for t, (appends, lines) in enumerate([(3, 4), (1, 2), (40, 41), (0, 1), (2, 3), (60, 9)]):
        for _ in range(appends):
            seen.append(1)
        there = seen.logs
        seen.fold(t, lines)
        told.append_folded(round(there + 1 - seen.logs), lines)
        assert told.logs == there
        told.fold(t, lines)
        assert told.logs == seen.logs
