"""Errors as Airflow's exceptions, in words that fit the form of a run."""

from __future__ import annotations

import pytest

from firnline.airflow.failures import airflow_failures, as_airflow
from firnline.airflow.versions import AirflowException, AirflowFailException
from firnline.errors import UsageError


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("give --where or --sql", "give where or sql"),
        ("give rows too (--rows), or leave it out", "give rows too (rows), or leave it out"),
        ("leave --where-type out", "leave where_type out"),
        ("run `firnline ttl t --json` or --json", "run `firnline ttl t --json` or json"),
        ("see `firnline history t` --json", "see `firnline history t` json"),
        ("run `firnline cleanup t`", "run the DAG `tombstone_cleanup` (table t)"),
        ("`firnline verify --deep` lists", "the DAG `verify` (deep) lists"),
        (
            "`firnline delete TABLE --where 'a > 1'`",
            "the DAG `delete_where` (table TABLE, where 'a > 1')",
        ),
        ("`firnline rewrite t --discard 7`", "`firnline rewrite t --discard 7`"),
        ("`firnline drop t d=1`", "`firnline drop t d=1`"),
        ("none; see `firnline parts`; the first are: d=1", "none; the first are: d=1"),
        ("`firnline` and `--scratch`", "`firnline` and `--scratch`"),
        ("2024-01-01--2024-01-02 and a -- b", "2024-01-01--2024-01-02 and a -- b"),
    ],
)
def test_options_of_the_command_line_are_params_of_the_form(sentence: str, said: str) -> None:
    assert str(as_airflow(sentence, retryable=False)) == said
    assert type(as_airflow(sentence, retryable=True)) is AirflowException


def test_an_error_of_ours_fails_the_task_in_these_words() -> None:
    with pytest.raises(AirflowFailException, match=r"^no rows; give where$"), airflow_failures():
        raise UsageError("no rows", next_step="give --where")
