"""Routes of the page's interface; imported by the API server only."""

# No future annotations: FastAPI reads them of functions inside make_app.
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.configuration import AIRFLOW_HOME, conf
from airflow.models import Connection
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Lifespan

from firnline.airflow.access import store_access
from firnline.airflow.page.app import STATIC
from firnline.airflow.page.board import Board
from firnline.airflow.page.erases import tries_of
from firnline.airflow.page.facts import Facts, facts_of
from firnline.airflow.page.fleet import Fleet, Row, dag_of
from firnline.airflow.page.metrics import Metrics, in_name, is_on
from firnline.airflow.page.planned import planned
from firnline.airflow.page.requested import Seen, named_in, requests_json, summary, zipped
from firnline.airflow.page.watch import OneOf, Watch
from firnline.airflow.settings import current_settings
from firnline.airflow.versions import gauges
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, UsageError
from firnline.operations.dag_ids import ERASE_PERSON, TABLE, parse_dag_id
from firnline.operations.erase.certificate import stored
from firnline.operations.erasure.bundle import bundle_of
from firnline.operations.erasure.folder import open_folder
from firnline.operations.erasure.run import People
from firnline.settings.erasure import ErasureSettings
from firnline.settings.load import Settings, TableSettings, settings_path
from firnline.store.access import StoreAccess
from firnline.table import Table
from firnline.table import open_table as open_store_table


def make_app() -> FastAPI:
    """Return the application."""
    kept, watch = make_fleet()
    board = Board(current_settings, open_people, SystemClock())
    # FastAPI's description of it (/openapi.json, /docs, /redoc) would ask nobody who calls.
    app = FastAPI(title="firnline", openapi_url=None, lifespan=_lifespan(watch))
    app.add_exception_handler(FirnlineError, _refused)

    @app.get("/api/fleet")
    def read_fleet(user: GetUserDep, session: SessionDep) -> Response:
        """Health of every table of which the user may read the DAG; never waits for a store."""
        rows = kept.rows()
        dags = {row.dag for row in rows} | {ERASE_PERSON}
        may = get_auth_manager().filter_authorized_dag_ids(dag_ids=dags, user=user)
        asked = board.known(tables=False) if ERASE_PERSON in may else None
        shown = [row for row in rows if row.dag in may]
        facts, now_ms = facts_of([row.settings.name for row in shown], session), kept.now_ms()
        tables = [_row(row, facts, now_ms) for row in shown]
        plain = {"now_ms": now_ms, "refreshing": kept.refreshing, "warning": kept.warning()}
        erasures = None if asked is None else summary(asked)
        return _json({**plain, "erasures": erasures, "tables": tables})

    may_read = [Depends(requires_access_dag("GET"))]

    @app.get("/api/tables/{dag_id}", dependencies=may_read)
    def read_table(dag_id: str, session: SessionDep, table: str | None = None) -> Response:
        """Health of the table of a DAG, such as ``merge__flights``, or of the one that is named."""
        row, now_ms = _row_of(kept, dag_id, table), kept.now_ms()
        facts, of = facts_of([row.settings.name], session), row.settings
        more = {"operations": list(of.operations), "own": list(of.own_dags)}
        tries = tries_of(of.name, session)
        return _json({"now_ms": now_ms, **more, **_row(row, facts, now_ms), "tries": tries})

    @app.get("/api/tables/{dag_id}/detail", dependencies=may_read)
    def read_detail(dag_id: str, table: str | None = None, version: int | None = None) -> Response:
        """Partitions, transactions and so on; of the version that the caller has its age only."""
        name = _row_of(kept, dag_id, table).settings.name
        found = kept.detail(name).to_json(kept.now_ms())
        if version is not None and found["version"] == version:
            del found["detail"]
        return _json(found)

    _add_erasures(app, board)
    _add_certificates(app, kept, may_read)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _add_erasures(app: FastAPI, board: Board) -> None:
    """Add the requests of erasure, for who may read the DAG that carries them out."""

    @app.get("/api/erasures")
    def read_erasures(user: GetUserDep, session: SessionDep) -> Response:
        """Requests and how far they are; never waits for a store.

        ``set`` is False without a folder for them in the settings. Tables whose DAG the user may
        not read are numbers.
        """
        seen, known = _seen(user), board.known(tables=True)
        if known is None:
            return _json({"set": False})
        plain = requests_json(known, seen, planned(session))
        return _json({"set": True, "now_ms": known.now_ms, **plain})

    @app.get("/api/erasures/{request}/bundle")
    def read_bundle(request: str, user: GetUserDep) -> Response:
        """Return the proof of a request that is done as a ZIP file; 403 without all of its tables.

        Waits for the stores. Requests: those of ``erasure.bundle.bundle_of``, and those of
        ``RequestFolder.one`` once more.
        """
        seen, people = _seen(user), open_people(current_settings())
        names = named_in(people.folder.one(request))
        if seen.names(names) != names:
            raise HTTPException(403, "you may not read the DAG of each table of this request")
        headers = {"Content-Disposition": f'attachment; filename="erasure-{request}.zip"'}
        data = zipped(bundle_of(people, request))
        return Response(data, media_type="application/zip", headers=headers)


def _seen(user: BaseUser) -> Seen:
    """Return the tables of a user who may see requests of erasure; 403 for anybody else."""
    settings = current_settings()
    dags = {name: dag_of(table) for name, table in settings.tables.items()}
    dags |= {name: dag_of(table) for name, table in settings.broken.items()}
    wanted = {*dags.values(), ERASE_PERSON}
    may = get_auth_manager().filter_authorized_dag_ids(dag_ids=wanted, user=user)
    if ERASE_PERSON not in may:
        raise HTTPException(403, f"you may not read the DAG {ERASE_PERSON}")
    return Seen(settings, {name: dag for name, dag in dags.items() if dag in may})


def _add_certificates(app: FastAPI, kept: Fleet, may_read: Sequence[Any]) -> None:
    """Add the certificates, whose answer waits for a store."""

    @app.get("/api/tables/{dag_id}/certificates/{erase}", dependencies=may_read)
    def read_certificate(dag_id: str, erase: str, table: str | None = None) -> Response:
        """The certificate of an erase as it is stored."""
        settings = _row_of(kept, dag_id, table).settings
        if not isinstance(settings, TableSettings):
            raise settings.error
        headers = {"Content-Disposition": f'attachment; filename="certificate-{erase}.json"'}
        data = stored(open_table(settings), erase)
        return Response(data, media_type="application/json", headers=headers)


def _lifespan(watch: Watch | None) -> Lifespan[FastAPI]:
    """Return what Airflow runs around the requests: the watch, if there is one."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if watch is not None:
            watch.start()
        yield
        if watch is not None:
            watch.stop()

    return lifespan


def make_fleet() -> tuple[Fleet, Watch | None]:
    """Return the tables of the settings file, and what watches them for metrics if these are on."""
    clock = SystemClock()
    seconds = conf.getfloat("firnline", "metrics_interval", fallback=300.0)
    if seconds <= 0 or not is_on(_metrics_option):
        return Fleet(current_settings, open_table, clock), None
    metrics = Metrics(*gauges(), named=in_name(_metrics_option))
    one = OneOf.of(f"metrics {AIRFLOW_HOME} {settings_path()}")

    def send(row: Row) -> None:
        if one.is_me():
            metrics.send(row, clock.now_ms())

    fleet = Fleet(current_settings, open_table, clock, send)

    def look() -> None:
        for row in fleet.rows():
            if row.known.under_way:  # its store is silent: nobody else says so
                send(row)

    return fleet, Watch(look, one, seconds)


def _metrics_option(name: str) -> bool:
    return bool(conf.getboolean("metrics", name, fallback=False))


def _json(plain: dict[str, Any]) -> Response:
    # FastAPI would look at every value first: a second for 10,000 partitions.
    return Response(msgspec.json.encode(plain), media_type="application/json")


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FirnlineError)  # what it is registered for
    status = 400 if isinstance(error, UsageError) else 503
    content = {"message": error.message, "next_step": error.next_step}
    return JSONResponse(content, status_code=status)


def _row_of(fleet: Fleet, dag_id: str, table: str | None) -> Row:
    dag = parse_dag_id(dag_id)
    name = None if dag is None else dag.table_of({TABLE: table})
    if name is None:
        raise HTTPException(404, f"{dag_id!r} is not the DAG of a table")
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


def open_people(settings: Settings) -> People:
    """Open the folder of requests and the tables with rows of people, outside of a task.

    No request is sent to a store. Raises: as ``open_table``, of the folder; UsageError: the
    settings name none.
    """
    folder = open_folder(settings.erasure, _access_of(settings.erasure))
    return People(folder, settings, lambda name: open_table(settings.table(name)))


def _access_of(named: ErasureSettings) -> StoreAccess | None:
    if named.requests is None:
        return None  # there is nothing to open, which the folder says
    place = TableSettings(name="erasure", root=named.requests, connection_id=named.connection_id)
    return store_access(place, Connection.get_connection_from_secrets)
