"""The list of mutations is true: each can be made, and names what is there."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from simulation.rules.catalogue import MUTATIONS
from tests.mutations.catalogue import AREAS, RULES, SOURCES
from tests.mutations.conditions import Module
from tests.mutations.model import SIMULATION, Mutation
from tests.mutations.page import markdown
from tests.mutations.survivors import SURVIVORS
from tools.bootstrap import REPO


@pytest.mark.long
@pytest.mark.parametrize("mutation", SOURCES, ids=lambda mutation: mutation.name)
def test_the_old_text_of_a_mutation_occurs_once(mutation: Mutation) -> None:
    text = (REPO / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    compile(text.replace(mutation.old, mutation.new), mutation.file, "exec")


@pytest.mark.long
def test_no_mistake_is_a_name_that_is_not_there(tmp_path: Path) -> None:
    """Any test would catch it, whatever it states."""
    for number, each in enumerate(SOURCES):
        text = (REPO / each.file).read_text(encoding="utf-8").replace(each.old, each.new)
        (tmp_path / f"m{number}.py").write_text(text, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821"]
    done = subprocess.run([*ruff, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("mutation", SOURCES, ids=lambda mutation: mutation.name)
def test_what_is_to_catch_a_mutation_exists(mutation: Mutation) -> None:
    assert mutation.caught_by
    for catcher in mutation.caught_by:
        path, _, test = catcher.partition("::")
        assert catcher == SIMULATION or (REPO / path).exists(), catcher
        assert not test or f"def {test}(" in (REPO / path).read_text(encoding="utf-8")


def test_every_name_is_given_once() -> None:
    names = Counter([each.name for each in SOURCES] + [rule.name for rule in RULES])
    assert [name for name, count in names.items() if count > 1] == []


def test_every_rule_of_the_simulation_is_among_them() -> None:
    assert [rule.name for rule in RULES] == list(MUTATIONS)


def test_they_are_at_least_sixty() -> None:
    assert len(SOURCES) + len(RULES) >= 60


def test_the_tables_have_every_mistake_rule_and_condition() -> None:
    rows = [line for line in markdown().splitlines() if line.startswith("| ")]
    mistakes = [each.name for each in SOURCES]
    rules = [each.name for each in RULES]
    assert [name for name in mistakes + rules if f"| {name}" not in "\n".join(rows)] == []
    headings = 2 * (len(AREAS) + 2)
    assert len(rows) == headings + len(SOURCES) + len(RULES) + len(SURVIVORS)


@pytest.mark.parametrize("module", sorted({each.module for each in SURVIVORS}))
def test_a_condition_that_is_judged_exists(module: str) -> None:
    there = {(switch.owner, switch.text) for switch in Module.of(module).switches}
    judged = [(each.function, each.switch) for each in SURVIVORS if each.module == module]
    assert set(judged) <= there
    assert len(set(judged)) == len(judged)
