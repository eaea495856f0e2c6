"""``spark_jobs/merge.py`` on ``gs://`` and ``az://``, with what a task passes of a connection."""

from __future__ import annotations

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.settings.load import settings_for_root
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.azure import AzureAccess
from firnline.store.google import GoogleAccess
from firnline.table import open_table
from tests.support.google_store import BUCKET, google_store
from tests.support.jobs import Jobs
from tools.azureserver import AzureServer


def check_merge(jobs: Jobs, root: str, access: StoreAccess) -> None:
    """Fill a table and merge it in Spark's tasks, to which only the job passes the access."""
    table = open_table(settings_for_root(root), access)
    for number in range(4):
        Appender(table).append(pa.table({"a": [number]}))
    done = jobs.run("merge", root, env={"FIRNLINE_STORE_ACCESS": access.to_json()})
    assert (done.report["counts"]["parts_in"], done.report["counts"]["parts_out"]) == (4, 1)
    assert [marker.n for marker in read_snapshot(table.store, table.paths).live.values()] == [4]


def test_a_table_on_google_is_merged_with_the_key_of_its_connection(jobs: Jobs) -> None:
    with google_store() as server:
        google = GoogleAccess.from_airflow_fields({"keyfile_dict": server.keyfile()})
        check_merge(jobs, f"gs://{BUCKET}/t", StoreAccess(google=google))


def test_a_table_on_azure_is_merged_with_the_key_of_its_connection(
    jobs: Jobs, azure_server: AzureServer
) -> None:
    azure = AzureAccess.from_airflow_fields(
        "wasb", azure_server.endpoint, azure_server.account, azure_server.key, {}
    )
    check_merge(jobs, f"az://{azure_server.container}/merged/t", StoreAccess(azure=azure))
