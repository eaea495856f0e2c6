"""What Airflow's database says of tables; that its queries are right is seen in
tests/dags/test_page_real.py."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from firnline.airflow.page.facts import Holder, facts_of


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def session(*tasks: tuple[Any, ...]) -> Any:
    """A database with these tasks (pool, DAG, run, start) that hold slots, and nothing else."""
    answers = iter([tasks, (), (), ()])
    return SimpleNamespace(execute=lambda _: next(answers))


def test_all_merges_that_hold_a_slot_are_named_the_longest_first() -> None:
    found = facts_of(
        ["t", "u"],
        session(
            ("t.merge", "merge__t", "third", None),
            ("t.merge", "merge__t", "second", moment(2_000)),
            ("other", "somebody_elses", "run", moment(1)),
            ("t.merge", "merge__t", "first", moment(1_000)),
            ("t.cleanup", "verify__t", "check", moment(5_000)),
        ),
    )
    assert found["t"].holders == {
        "merge": [
            Holder("merge__t", "first", 1_000),
            Holder("merge__t", "second", 2_000),
            Holder("merge__t", "third", None),
        ],
        "cleanup": [Holder("verify__t", "check", 5_000)],
    }
    assert found["t"].to_json()["holders"]["merge"][0]["run_id"] == "first"
    assert "u" not in found
