from __future__ import annotations

import subprocess
import sys

import pytest

from simulation.__main__ import chunks_of, summary_of
from simulation.rules.catalogue import MUTATIONS
from simulation.run import play_seed, play_seeds


@pytest.mark.long
def test_a_seed_is_the_same_world_every_time() -> None:
    first, second = play_seed(17), play_seed(17)
    assert first.trace == second.trace
    assert len(first.trace) > 50


@pytest.mark.long
def test_a_few_worlds_keep_every_promise_and_something_happens_in_them() -> None:
    found = play_seeds(0, 8)
    assert not hasattr(found, "what"), found
    assert {"append", "merge", "drop", "cleanup"} <= set(found)


def test_the_corpus_adds_the_seed_of_every_rule_once() -> None:
    played = [seed for seeds in chunks_of(100, 60, corpus=True) for seed in seeds]
    assert sorted(played) == sorted({*range(100, 160), *(m.seed for m in MUTATIONS.values())})


def test_without_the_corpus_only_the_seeds_asked_for_are_played() -> None:
    assert chunks_of(100, 60, corpus=False) == [
        range(100, 125),
        range(125, 150),
        range(150, 160),
    ]


def test_the_seed_of_the_rule_that_is_broken_comes_first() -> None:
    rule = "a digest does not know the sign of zero"
    first, *_ = chunks_of(0, 500, corpus=True, broken=rule)
    assert first == range(MUTATIONS[rule].seed, MUTATIONS[rule].seed + 1)


def test_the_last_lines_tell_what_was_played_refused_and_found() -> None:
    counts = {
        "merge": 2000,
        "merge: MergeFailedError": 3,
        "Delta version checked": 7,
        "mistake: a value is lost": 4,
        "mistake: a null is filled": 1,
    }
    assert summary_of(counts) == [
        "  done: Delta version checked 7, merge 2,000",
        "  refused, as it must be: MergeFailedError 3",
        "  5 mistakes of kernels, all found: a null is filled 1, a value is lost 4",
    ]


BREAK_EACH = """
import os
import firnline.mirror.iceberg.publish  # once, and not in each child
from simulation.rules.catalogue import MUTATIONS
for rule, mutation in MUTATIONS.items():
    child = os.fork()  # what it replaces stays replaced
    if child == 0:
        mutation.switch_off()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(rule, flush=True)
"""


@pytest.mark.long
def test_every_rule_can_be_switched_off() -> None:
    broken = subprocess.run(
        [sys.executable, "-c", BREAK_EACH], capture_output=True, text=True, check=False
    )
    assert (broken.stdout, broken.returncode) == ("", 0), broken.stderr
