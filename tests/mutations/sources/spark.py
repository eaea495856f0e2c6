"""Mistakes in the Spark jobs and the data source."""

from __future__ import annotations

from tests.mutations.model import Mutation

SPARK = (
    Mutation(
        name="groups whose results did not come are forgotten",
        file="include/firnline/spark/engine.py",
        old="        missing = [task for task in batch.tasks if task.group not in found]",
        new="        missing: list[KernelTask] = []",
        breaks="A merge ends as a success and has left groups out.",
        caught_by=("tests/unit/spark/test_outcome.py",),
    ),
    Mutation(
        name="a group that kills its worker is tried once more than said",
        file="include/firnline/spark/engine.py",
        old="    if batch.tries + 1 < _TRIES:",
        new="    if batch.tries < _TRIES:",
        breaks="A group that no memory suffices for costs another executor.",
        caught_by=("tests/unit/spark/test_outcome.py",),
    ),
    Mutation(
        name="the last job of groups is not sent",
        file="include/firnline/spark/engine.py",
        old="    return [*found, Batch(tuple(gathered))] if gathered else found",
        new="    return found",
        breaks="The groups at the end are never merged.",
        caught_by=("tests/unit/spark/test_batches.py",),
    ),
    Mutation(
        name="a job that failed ends with 0",
        file="include/firnline/spark/job.py",
        old="    return error.exit_code\n",
        new="    return 0\n",
        breaks="Airflow shows a failed merge as a success.",
        caught_by=("tests/unit/spark/test_job.py",),
    ),
    Mutation(
        name="a dry run among the options of a job runs",
        file="include/firnline/spark/job.py",
        old='        if fields.get("dry_run"):',
        new="        if given.dry_run:",
        breaks="A run that was to look changes the table.",
        caught_by=("tests/unit/spark/test_job.py",),
    ),
    Mutation(
        name="a mistyped option of a job is ignored",
        file="include/firnline/spark/job.py",
        old="    unknown = sorted(fields.keys() - known)",
        new="    unknown = sorted(known - known)",
        breaks="A bound that somebody sets does not hold.",
        caught_by=("tests/unit/spark/test_job.py",),
    ),
    Mutation(
        name="credentials are shown with a kernel's function",
        file="include/firnline/spark/worker.py",
        old="    access: str | None = field(repr=False)",
        new="    access: str | None",
        breaks="An error of Spark that shows its closure shows the store's keys.",
        caught_by=("tests/unit/spark/test_worker.py",),
    ),
    Mutation(
        name="the last batch of a stream is written twice after a restart",
        file="include/firnline/spark/format/sink.py",
        old="        if batchId <= done:",
        new="        if batchId < done:",
        breaks="Rows of a batch whose driver died are there twice.",
        caught_by=("tests/unit/spark/format/test_sink.py",),
    ),
    Mutation(
        name="parts of a write that may be visible are deleted",
        file="include/firnline/spark/format/write.py",
        old="    if len(written) == len(messages):\n        return\n",
        new="",
        breaks="A commit whose answer was lost names parts that are gone.",
        caught_by=("tests/unit/spark/format/test_sink.py",),
    ),
    Mutation(
        name="a write knows what its newest task knew",
        file="include/firnline/spark/format/write.py",
        old="min((m.begun for m in messages), key=lambda b: b.q, default=None)",
        new="max((m.begun for m in messages), key=lambda b: b.q, default=None)",
        breaks="Rows that a delete was to hide are seen.",
        caught_by=("tests/unit/spark/format/test_sink.py",),
    ),
    Mutation(
        name="a module that an executor lacks is the fault of the group",
        file="include/firnline/spark/engine.py",
        old="    if fault is not None:",
        new="    if fault is None:",
        breaks="For a library that was not installed people are told to drop parts.",
        caught_by=("tests/unit/spark/test_preflight.py",),
    ),
)
