"""Routes of the page's interface; imported by the first request to the API server."""

# No future annotations: FastAPI reads them of functions inside make_app.
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models import Connection
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles

from firnline.airflow.access import store_access
from firnline.airflow.page.app import STATIC
from firnline.airflow.page.facts import Facts, facts_of
from firnline.airflow.page.fleet import Fleet, Row
from firnline.airflow.page.settings_file import SettingsFile
from firnline.airflow.tables import dag_id
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, UsageError
from firnline.operations.registry import MERGE
from firnline.settings.load import TableSettings
from firnline.table import Table
from firnline.table import open_table as open_store_table


def make_app(fleet: Fleet | None = None) -> FastAPI:
    """Return the application.

    Args:
        fleet: the cached tables; None for those of the settings file.
    """
    app = FastAPI(title="firnline", description="Health of log-structured tables.")
    kept = fleet or make_fleet()

    app.add_exception_handler(FirnlineError, _refused)

    @app.get("/api/fleet")
    def read_fleet(user: GetUserDep, session: SessionDep) -> dict[str, Any]:
        """Health of every table of which the user may read the DAG; never waits for a store."""
        rows = kept.rows()
        dags = {dag_id(MERGE.dag, row.settings.name): row for row in rows}
        may = get_auth_manager().filter_authorized_dag_ids(dag_ids=set(dags), user=user)
        shown = [row for name, row in dags.items() if name in may]
        facts = facts_of([row.settings.name for row in shown], session)
        now_ms = kept.now_ms()
        return {
            "now_ms": now_ms,
            "refreshing": kept.refreshing,
            "tables": [_row(row, facts, now_ms) for row in shown],
        }

    may_read = [Depends(requires_access_dag("GET"))]

    @app.get("/api/tables/{dag_id}", dependencies=may_read)
    def read_table(dag_id: str, session: SessionDep) -> dict[str, Any]:
        """Health of the table of a DAG, such as ``merge__flights``."""
        row = _row_of(kept, dag_id)
        name = row.settings.name
        return _row(row, facts_of([name], session), kept.now_ms())

    @app.get("/api/tables/{dag_id}/detail", dependencies=may_read)
    def read_detail(dag_id: str) -> dict[str, Any]:
        """Partitions, transactions, sizes, schema, next runs and properties of a DAG's table."""
        return kept.detail(_row_of(kept, dag_id).settings.name).to_json(kept.now_ms())

    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def make_fleet() -> Fleet:
    """Return the tables of the settings file, opened by their Airflow connections."""
    clock = SystemClock()
    return Fleet(SettingsFile(clock), open_table, clock)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FirnlineError)  # what it is registered for
    status = 400 if isinstance(error, UsageError) else 503
    content = {"message": error.message, "next_step": error.next_step}
    return JSONResponse(content, status_code=status)


def _row_of(fleet: Fleet, dag_id: str) -> Row:
    name = dag_id.partition("__")[2]
    row = fleet.row(name)
    if row is None:
        raise HTTPException(404, f"the settings have no table {name!r}")
    return row


def _row(row: Row, facts: dict[str, Facts], now_ms: int) -> dict[str, Any]:
    found = facts.get(row.settings.name, Facts())
    return {**row.to_json(now_ms), "airflow": found.to_json()}


def open_table(table: TableSettings) -> Table:
    """Open a table with the credentials of its Airflow connection, outside of a task.

    Raises:
        EnvironmentFaultError, StoreAccessError: see ``airflow.access.store_access``.
    """
    return open_store_table(table, store_access(table, Connection.get_connection_from_secrets))
