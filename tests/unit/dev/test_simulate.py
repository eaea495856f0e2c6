from __future__ import annotations

import subprocess
import sys

from firnline_dev.simulate.run import play_seed, play_seeds


def test_a_seed_is_the_same_world_every_time() -> None:
    first, second = play_seed(17), play_seed(17)
    assert first.trace == second.trace
    assert len(first.trace) > 50


def test_a_few_worlds_keep_every_promise_and_something_happens_in_them() -> None:
    found = play_seeds(0, 20)
    assert not hasattr(found, "what"), found
    assert {"append", "merge", "drop", "cleanup"} <= set(found)


BREAK_EACH = """
import os
from firnline_dev.simulate.mutations import MUTATIONS
for rule, switch_off in MUTATIONS.items():
    child = os.fork()  # what it replaces stays replaced
    if child == 0:
        switch_off()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(rule, flush=True)
"""


def test_every_rule_can_be_switched_off() -> None:
    broken = subprocess.run(
        [sys.executable, "-c", BREAK_EACH], capture_output=True, text=True, check=False
    )
    assert (broken.stdout, broken.returncode) == ("", 0), broken.stderr
