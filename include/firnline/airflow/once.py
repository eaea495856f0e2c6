"""A run is done once: a completed run is not done again unless its params say so.

Airflow starts a completed run again with the conf that it had, ``dry_run: false`` among it: by a
clear, by another DAG that resets it, by a backfill over "All Runs" whose form does not send its own
conf. That a run completed is read from the table (``firnline.operations.run_records``), not from
Airflow's database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from firnline.airflow.figures import shortened, time_text
from firnline.airflow.params import asked_param
from firnline.airflow.runs import kind_of_run, run_identity
from firnline.errors import some

if TYPE_CHECKING:
    from airflow.sdk import Context, Param

    from firnline.airflow.work import Work
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.run_records import RunRecord
    from firnline.table import Table

AGAIN = "again"
_YES = "true"
_SHOWN = 10
"""Maximum ranges of transactions in the sentence."""


def again_param() -> Param:
    """Return the param that has a completed run done again."""
    return asked_param(
        False,
        "Again",
        "A run that has completed is not done again, whatever Airflow starts it "
        'with, unless this is on. A run is done once for each value: `true`, then `"2"`.',
        type=["boolean", "string", "null"],
        examples=[True, "2"],  # a switch in the form
        form='true, false or a text such as "2"',
    )


def again_word(params: Mapping[str, Any]) -> str:
    """Return the value of ``again`` as a word; empty if it was not given.

    The conf of a run is kept: a value that has already been acted on must not be acted on again.
    """
    value = params.get(AGAIN)
    if isinstance(value, bool) or value is None:
        return _YES if value else ""
    word = str(value).strip()
    return "" if word.lower() == "false" else word


@dataclass(frozen=True, slots=True)
class Once:
    """The completions of a run that one task knows of."""

    table: Table
    run: RunIdentity
    word: str
    records: tuple[RunRecord, ...]
    """Completions of the run, oldest first."""
    is_backfill: bool = False
    """True if a backfill started the run: only a backfill can give a run another conf."""

    @property
    def is_done(self) -> bool:
        """Return True if the run has completed and is not to be done again."""
        words = {record.again for record in self.records}
        return bool(self.records) and (not self.word or self.word in words)

    @property
    def figures(self) -> dict[str, Any]:
        """Return the last completion as plain data for XCom."""
        last = self.records[-1]
        return shortened(
            {
                "done_before": self.sentence,
                "done_ms": last.t,
                "transactions": last.transactions,
            }
        )

    @property
    def sentence(self) -> str:
        """Return when the run was done, its transactions, and how to do it again."""
        last = self.records[-1]
        used = [record.again for record in self.records if record.again]
        told = f" (told `again: {_value(used[-1])}`)" if used else ""
        new = _YES if not used else next(n for n in map(str, count(2)) if n not in used)
        step = "trigger a new run to do it again"
        if self.is_backfill:
            step = (
                f"to do it again override its parameters with `again: {_value(new)}` among them, "
                "or trigger a new run"
            )
        return (
            f"run {self.run.run_id} of {self.run.dag_id} was done on {time_text(last.t)} UTC"
            f"{told}, {as_transactions(last.transactions)}, and is not done again; {step}"
        )

    def record(self, transactions: Sequence[int]) -> Once:
        """Record that the run is complete; return the updated record.

        Requests and errors of ``record_completed``.
        """
        from firnline.operations.run_records import record_completed

        made = record_completed(self.table, self.run, self.word, transactions, len(self.records))
        return replace(self, records=(*self.records, made))


def once(work: Work[Any], table: Table, context: Context) -> Once | None:
    """Return the table's record of this run; None for work that may be repeated freely.

    A dry run does nothing, so it may always be repeated, and never counts as done. Requests: 1 LIST
    and 1 GET for each time that the run completed.

    Raises:
        LogCorruptError: a record cannot be read.
    """
    if not work.once or work.is_dry_run(context):
        return None
    from firnline.operations.run_records import completed

    run, word = run_identity(context), again_word(context["params"])
    return Once(table, run, word, completed(table, run), kind_of_run(context) == "backfill")


def as_transactions(numbers: Sequence[int]) -> str:
    """Return ``as transactions 12-14, 17``, or ``with nothing to do`` for none."""
    if not numbers:
        return "with nothing to do"
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in spans]
    noun = "transaction" if len(numbers) == 1 else "transactions"
    return f"as {noun} {some(texts, _SHOWN)}"


def _value(word: str) -> str:
    return word if word == _YES else f'"{word}"'
