"""The exhaustive model: it finds what is broken, by the shortest way, and every rule has a world.

The worlds themselves: `python -m simulation.model`, a part of `make test`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from firnline.operations.cleanup.retention import TXN_KEPT
from simulation.model.__main__ import is_found, main
from simulation.model.liveness import PROMISES, measure
from simulation.model.rules import FENCE, RULES, Rule
from simulation.model.scenarios import SMALL
from simulation.model.search import explore, reachable
from simulation.model.worlds import EVERY_RUN, WORLDS
from simulation.rules.catalogue import BY_UNIT_TESTS, MUTATIONS, NOT_FOUND_AGAIN, RARE

QUICK = 3000
"""States of a world that a unit test may search."""


@dataclass(frozen=True)
class Grid:
    """Steps right and up; one field is a hole."""

    hole: tuple[int, int] | None

    def start(self) -> tuple[int, int]:
        return 0, 0

    def successors(self, state: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        x, y = state
        if x < 3:
            yield "right", (x + 1, y)
        if y < 3:
            yield "up", (x, y + 1)
        if state == (1, 0):
            yield "jump", (3, 2)

    def wrong(self, state: tuple[int, int]) -> str | None:
        return "in the hole" if state == self.hole else None


def rule(name: str) -> Rule:
    return next(rule for rule in RULES if rule.name == name)


def test_the_search_sees_every_state_once() -> None:
    found = explore(Grid(None))
    assert (found.states, found.found, found.cut) == (16, None, False)
    assert sorted(reachable(Grid(None))) == [(x, y) for x in range(4) for y in range(4)]


def test_the_search_finds_a_hole_by_the_shortest_way() -> None:
    found = explore(Grid((3, 3)))
    assert found.found == "in the hole"
    assert found.trace == ("right", "jump", "up")
    assert found.depth == len(found.trace)


def test_a_search_that_was_cut_says_so() -> None:
    assert explore(Grid(None), limit=3).cut


@pytest.mark.parametrize(
    "world", ["a lost answer", "rivals", "a torn listing", "a feed of changes"]
)
def test_a_world_in_which_all_rules_hold_is_clean(world: str) -> None:
    assert explore(WORLDS[world].model(frozenset())).found is None


def test_names_of_worlds_and_rules_are_unique() -> None:
    assert len({scenario.name for scenario in SMALL}) == len(SMALL)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_every_rule_has_a_world_that_every_run_searches() -> None:
    assert {rule.world for rule in RULES} <= {world.name for world in EVERY_RUN}


def test_every_rule_without_a_seed_is_a_rule_of_the_model() -> None:
    assert set(RARE) - {*NOT_FOUND_AGAIN, *BY_UNIT_TESTS} <= {rule.name for rule in RULES}


def test_a_rule_is_called_as_the_simulation_calls_it() -> None:
    """Those that only the model has belong to the fence, to a rebuild or to a certificate."""
    own = {rule.name for rule in RULES} - set(MUTATIONS) - set(RARE)
    assert own - set(FENCE) == {
        "no fence: numbers",
        "what is behind the fence was read by nobody",
        "the grace of what came too late begins when it lands",
        "a log tombstone goes before the fence",
        "a rival shows that the own put failed",
        "what cannot be known has not happened",
        "folded log files list parts alive",
        "a transaction that never took effect counts",
        "what lies below a gap counts",
        "a certificate does not look for objects without name",
    }


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "no fence",
        "no fence: numbers",
        "a log tombstone goes before the fence",
        "append reads its sequence from the log",
        "an unknown commit counts as failed",
        "the record of a file that goes states its bounds",
    ],
)
def test_a_rule_that_is_switched_off_is_found(name: str) -> None:
    found = explore(WORLDS[rule(name).world].model(rule(name).off), limit=QUICK)
    assert is_found(rule(name), found), found
    assert len(found.trace) == found.depth


def test_a_break_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--break", "a fold forgets what a torn listing does not show"]) == 0
    told = capsys.readouterr().out
    assert "a stream delivers rows twice" in told
    assert "1 the committer lists the first page of _log/" in told


def test_a_rule_that_is_not_found_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """In a world in which it makes no difference."""
    assert main(["a lost answer", "--break", "the fence waits for nobody"]) == 1
    assert "NOT FOUND" in capsys.readouterr().out


def test_a_clean_world_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a lost answer"]) == 0
    assert "clean" in capsys.readouterr().out


def test_a_commit_is_published_once_faults_stop() -> None:
    promise = next(promise for promise in PROMISES if promise.what == "a commit is published")
    assert measure(promise).broken == ""
    assert measure(promise).steps == promise.k


def test_the_model_frees_numbers_as_the_product_does_but_earlier() -> None:
    """It keeps fewer transactions, so that few steps show what needs a hundred in a table."""
    assert all(1 <= scenario.kept < TXN_KEPT for scenario in SMALL)
