"""Pass a table's credentials from its Airflow connection to the process that needs them.

They are looked up inside the task and live in memory and in the environment of the Spark driver:
never in a templated field, an argument list, a Spark setting or a log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection
from airflow.sdk.log import mask_secret

from firnline.airflow.versions import AirflowNotFoundException
from firnline.errors import EnvironmentFaultError, StoreAccessError
from firnline.paths import Root
from firnline.settings.load import TableSettings
from firnline.store.access import ACCESS_VARIABLE

if TYPE_CHECKING:
    from firnline.store.access import StoreAccess
    from firnline.table import Table


def adding(conn_type: str, options: str = "") -> str:
    """Return the command that creates a connection of a type, with a place for its id."""
    return f"airflow connections add {{id}} --conn-type {conn_type} {options}".rstrip()


_ADD_SPARK = adding("spark", "--conn-host spark://HOST:7077")
GetConnection = Callable[[str], Any]
"""Finds a connection by id in this process: the SDK's for tasks, the model's for the API server;
both have the same fields."""


def connection(
    conn_id: str, used_for: str, add: str, get: GetConnection = Connection.get
) -> Connection:
    """Return an Airflow connection. Raises EnvironmentFaultError that says how to create it."""
    try:
        found: Connection = get(conn_id)
    except AirflowNotFoundException:
        raise EnvironmentFaultError(
            f"there is no Airflow connection {conn_id!r}, which {used_for}",
            next_step=f"create it with `{add.format(id=conn_id)}`",
        ) from None
    return found


def spark_connection(table: TableSettings) -> Connection:
    """Return the connection of the table's Spark cluster. Raises EnvironmentFaultError."""
    used_for = f"table {table.name} names as its Spark cluster (spark.conn_id)"
    return connection(table.spark.conn_id, used_for, _ADD_SPARK)


@dataclass(frozen=True, slots=True)
class StoreType:
    """The connections that give access to the stores of one scheme."""

    conn_types: tuple[str, ...]
    options: str
    """Of the command that creates one of the first type."""
    read: Callable[[Connection], StoreAccess]

    @property
    def add(self) -> str:
        """The command, with a place for the id."""
        return adding(self.conn_types[0], self.options)


def _aws(found: Connection) -> StoreAccess:
    from firnline.store.access import StoreAccess

    return StoreAccess.from_airflow_fields(found.login, found.password, found.extra_dejson)


def _google(found: Connection) -> StoreAccess:
    from firnline.store.access import StoreAccess
    from firnline.store.google import GoogleAccess

    return StoreAccess(google=GoogleAccess.from_airflow_fields(found.extra_dejson))


def _azure(found: Connection) -> StoreAccess:
    from firnline.store.access import StoreAccess
    from firnline.store.azure import AzureAccess

    azure = AzureAccess.from_airflow_fields(
        found.conn_type or "", found.host, found.login, found.password, found.extra_dejson
    )
    return StoreAccess(azure=azure)


_AWS = StoreType(("aws",), "--conn-login ACCESS_KEY --conn-password SECRET", _aws)
_STORES = {
    "s3": _AWS,
    "gs": StoreType(
        ("google_cloud_platform",), '--conn-extra \'{{"key_path": "/path/key.json"}}\'', _google
    ),
    "az": StoreType(("wasb", "adls"), "--conn-login ACCOUNT --conn-password KEY", _azure),
    # They need no access; a connection that is named all the same has to be there.
    "file": _AWS,
    "memory": _AWS,
}
"""Airflow connections for each scheme of a root."""


def store_access(table: TableSettings, get: GetConnection = Connection.get) -> StoreAccess | None:
    """Return endpoint and credentials of the table's connection; None for the cloud's own chain.

    All its secrets are masked in logs from then on.

    Args:
        table: the table.
        get: finds a connection in this process; the default is for tasks.

    Raises:
        EnvironmentFaultError: there is no such connection, or it does not fit the table's scheme.
        StoreAccessError: the contents of the connection are not valid.
    """
    if table.connection_id is None:
        return None
    scheme = Root.parse(table.root).scheme
    store = _STORES[scheme]
    used_for = f"table {table.name} names for its store (connection_id)"
    found = connection(table.connection_id, used_for, store.add, get)
    if found.conn_type not in store.conn_types:
        raise EnvironmentFaultError(
            f"the Airflow connection {table.connection_id!r} is of type {found.conn_type!r}, and "
            f"table {table.name} on {scheme}:// needs one of type {' or '.join(store.conn_types)}",
            next_step="correct connection_id in the settings, or leave it out for the usual chain",
        )
    try:
        access = store.read(found)
    except StoreAccessError as error:
        raise StoreAccessError(
            f"the Airflow connection {table.connection_id!r} of table {table.name} cannot be used: "
            f"{error.message}",
            next_step=error.next_step,
        ) from None
    for secret in access.secrets:
        mask_secret(secret)
    return access


def driver_environment(access: StoreAccess | None) -> dict[str, str]:
    """Return the environment variables that give a Spark driver this access, in clear text."""
    if access is None:
        return {}
    values = {
        "AWS_ENDPOINT_URL_S3": access.endpoint,
        "AWS_REGION": access.region,
        "AWS_ACCESS_KEY_ID": access.access_key,
        "AWS_SECRET_ACCESS_KEY": access.secret_key,
        "AWS_SESSION_TOKEN": access.session_token,
        "AWS_PROFILE": access.profile,
        # Carries what the variables above cannot: the addressing style, a role to assume, and the
        # access to Google and Azure, which the job reads nowhere else.
        ACCESS_VARIABLE: access.to_json(),
    }
    return {name: value for name, value in values.items() if value}


def open_in_task(table: TableSettings) -> Table:
    """Open the table with the credentials of its connection; sends no request to the store.

    Raises:
        EnvironmentFaultError, StoreAccessError: as ``store_access``.
    """
    from firnline.table import open_table

    return open_table(table, store_access(table))
