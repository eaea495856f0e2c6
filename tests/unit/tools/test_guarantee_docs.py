"""docs/testing.md names tests that exist and every rule to be broken; guarantees.md names none."""

from __future__ import annotations

import re

import pytest

from simulation.rules.catalogue import MUTATIONS
from tools.bootstrap import REPO

TEXT = (REPO / "docs" / "guarantees.md").read_text(encoding="utf-8")
TESTING = (REPO / "docs" / "testing.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[\w/.:*]+)`", TESTING))))
def test_what_is_named_as_a_proof_exists(named: str) -> None:
    path, _, test = named.partition("::")
    files = list(REPO.glob(path))
    assert files, path
    if test:
        assert f"def {test}(" in files[0].read_text(encoding="utf-8")


def test_the_page_of_guarantees_names_no_test() -> None:
    assert re.findall(r"tests/\w+|\btest_\w+|\bseeds?\b", TEXT) == []


def test_the_table_has_every_rule_that_can_be_switched_off_with_the_seed_that_finds_it() -> None:
    head = "| rule that is switched off | found in seed |"
    table = TESTING[TESTING.index(head) :].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \| (\d[\d,]*) \| .+ \|$", table, re.MULTILINE)
    assert rows == [(rule, f"{mutation.seed:,}") for rule, mutation in MUTATIONS.items()]


def test_the_seed_of_every_rule_is_one_of_those_of_make_test_full() -> None:
    assert all(mutation.seed < 22_000 for mutation in MUTATIONS.values())
