"""Mistakes in DAGs, their tasks and the plugin."""

from __future__ import annotations

from tests.mutations.model import Mutation

AIRFLOW = (
    Mutation(
        name="every erase holds the pool of the first table",
        file="dags/erase.py",
        old="            pool=pool_of(ERASE, table),",
        new="            pool=pool_of(ERASE, next(tables_of(ERASE.operation))),",
        breaks="An erase runs beside a merge of the same table, and one of them works in vain.",
        caught_by=("tests/unit/airflow/test_dag_files.py",),
    ),
    Mutation(
        name="the report of an erase needs its success",
        file="dags/erase.py",
        old="report.as_teardown(setups=plan)",
        new="report",
        breaks="Of an erase that failed half-way nobody learns what it has done.",
        caught_by=("tests/unit/airflow/test_dag_files.py",),
    ),
    Mutation(
        name="the report of a job needs its success",
        file="include/firnline/airflow/dags.py",
        old="report.as_teardown(setups=plan)",
        new="report",
        breaks="Of a merge that failed half-way nobody learns what it has done.",
        caught_by=("tests/unit/airflow/test_dag_files.py",),
    ),
    Mutation(
        name="several runs of a DAG at once",
        file="include/firnline/airflow/dags.py",
        old='"max_active_runs": 1,',
        new='"max_active_runs": 16,',
        breaks="Runs of a table that was behind plan the same work again and again.",
        caught_by=("tests/dags/test_merge_dag.py",),
        unit=None,
    ),
    Mutation(
        name="a rejection counts as an approval",
        file="include/firnline/airflow/humans.py",
        old='isinstance(answer, dict) or answer.get("approved") is not True',
        new="isinstance(answer, dict)",
        breaks="Data go that a person has refused to give away.",
        caught_by=("tests/unit/airflow/test_humans.py",),
    ),
    Mutation(
        name="silence is a yes",
        file="include/firnline/airflow/humans.py",
        old="defaults=[ApprovalOperator.REJECT]",
        new="defaults=[ApprovalOperator.APPROVE]",
        breaks="What nobody has looked at is deleted after a day.",
        caught_by=("tests/unit/airflow/test_humans.py",),
    ),
    Mutation(
        name="a dry run goes on after its plan",
        file="include/firnline/airflow/tasks.py",
        old="""        if dry_run:
            self._skip(context, figures, "a dry run ends here")
""",
        new="",
        breaks="Whoever wants to look changes the table.",
        caught_by=("tests/unit/airflow/test_tasks.py",),
    ),
    Mutation(
        name="a person's run is no dry run",
        file="include/firnline/airflow/work.py",
        old='        return bool(context["params"].get("dry_run", False))',
        new='        return told and bool(context["params"].get("dry_run", False))',
        breaks="A run that somebody starts without a look at its params deletes.",
        caught_by=("tests/unit/airflow/test_work.py",),
    ),
    Mutation(
        name="what no retry mends is tried again",
        file="include/firnline/airflow/failures.py",
        old="AirflowException(sentence) if retryable else AirflowFailException(sentence)",
        new="AirflowException(sentence)",
        breaks="A mistake in the settings is told after an hour of retries.",
        caught_by=("tests/unit/airflow/test_tasks.py",),
    ),
    Mutation(
        name="the options of a job stand in its argument list",
        file="include/firnline/airflow/submit_job.py",
        old='if connection.extra_dejson.get("deploy-mode") == "cluster":',
        new='if connection.extra_dejson.get("deploy-mode") != "client":',
        breaks="Keys of people are shown to everybody on the machine.",
        caught_by=("tests/unit/airflow/test_submit_job.py",),
    ),
    Mutation(
        name="a session token is written to the log",
        file="include/firnline/airflow/access.py",
        old="    for secret in (access.secret_key, access.session_token, access.external_id):",
        new="    for secret in (access.secret_key, access.external_id):",
        breaks="Whoever reads a log can use the store.",
        caught_by=("tests/unit/airflow/test_masking.py",),
    ),
    Mutation(
        name="a run whose pool is missing waits for ever",
        file="include/firnline/airflow/pool_guard.py",
        old="        if not slots.get(pool) or not _commits_exclude(dag_run.dag_id):",
        new="        if pool in slots and not _commits_exclude(dag_run.dag_id):",
        breaks="Nobody learns why a table is not maintained any more.",
        caught_by=("tests/unit/airflow/test_pool_guard.py",),
    ),
)
