from __future__ import annotations

from firnline_dev.simulate.run import play_seed, play_seeds


def test_a_seed_is_the_same_world_every_time() -> None:
    first, second = play_seed(17), play_seed(17)
    assert first.trace == second.trace
    assert len(first.trace) > 50


def test_a_few_worlds_keep_every_promise_and_something_happens_in_them() -> None:
    found = play_seeds(0, 20)
    assert not hasattr(found, "what"), found
    assert {"append", "merge", "drop", "cleanup"} <= set(found)
