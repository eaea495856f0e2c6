"""Account and credentials of Azure Blob Storage, as in connections of type wasb and adls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from firnline.errors import StoreAccessError
from firnline.store.endpoints import check_endpoint
from firnline.store.extra import read_extra, text_field

_IDENTITY = {"managed_identity_client_id", "workload_identity_tenant_id"}
_KNOWN = {
    "wasb": {
        *("connection_string", "tenant_id", "client_secret_auth_config"),
        *("shared_access_key", "sas_token", "account_key"),
        *_IDENTITY,
    },
    "adls": {"connection_string", "tenant_id", "account_url", *_IDENTITY},
}

_TEXTS = (_KNOWN["wasb"] | _KNOWN["adls"]) - {"client_secret_auth_config"}


@dataclass(frozen=True, slots=True)
class AzureAccess:
    """A storage account with one kind of credential; without any, the environment's chain.

    Raises:
        StoreAccessError: no account, more than one credential, half of one, or an invalid endpoint.
    """

    account: str
    endpoint: str | None = None
    """URL of the Blob service; None: ``https://ACCOUNT.blob.core.windows.net``."""
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    tenant_id: str | None = None
    client_id: str | None = None
    """Of an application with a secret; without one, of a managed or workload identity."""
    client_secret: str | None = field(default=None, repr=False)
    authority: str | None = None
    """Host that issues tokens to the application; None: Azure's public cloud."""

    def __post_init__(self) -> None:
        if not self.account:
            raise StoreAccessError(
                "no storage account is named", next_step="write its name or URL into the connection"
            )
        check_endpoint(self.url)
        if sum(map(bool, (self.key, self.sas_token, self.client_secret))) > 1:
            raise StoreAccessError(
                "there is more than one Azure credential",
                next_step="leave one of key, SAS token and client secret",
            )
        if self.client_secret and not (self.client_id and self.tenant_id):
            raise StoreAccessError(
                "there is a client secret without its client id or tenant",
                next_step="give all three",
            )

    @property
    def url(self) -> str:
        """URL of the Blob service of the account."""
        return (self.endpoint or f"https://{self.account}.blob.core.windows.net").rstrip("/")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the secrets, which no log may show."""
        signatures = parse_qs((self.sas_token or "").lstrip("?")).get("sig", [])
        given = (self.key, self.sas_token, self.client_secret, *signatures)
        return tuple(secret for secret in given if secret)

    def config(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """Return the options of obstore's store; a credential here beats the environment's."""
        place = {"account_name": self.account, "endpoint": self.url, "use_emulator": False}
        given = self._credential(environ)
        return place if given is None else {**place, "skip_signature": False, **given}

    def _credential(self, environ: Mapping[str, str]) -> dict[str, Any] | None:
        if self.key:
            return {"credential_type": "access_key", "account_key": self.key}
        if self.sas_token:
            return {"credential_type": "sas_token", "sas_key": self.sas_token}
        names = {
            "client_id": self.client_id,
            "tenant_id": self.tenant_id,
            "client_secret": self.client_secret,
            "authority_host": self.authority,
        }
        ids = {name: value for name, value in names.items() if value}
        if self.client_secret:
            return {"credential_type": "client_secret", **ids}
        if self.client_id is None:
            return None
        # Set by Kubernetes in every pod that has a workload identity.
        federated = bool(environ.get("AZURE_FEDERATED_TOKEN_FILE"))
        return {"credential_type": "workload_identity" if federated else "managed_identity", **ids}

    @classmethod
    def from_airflow_fields(
        cls,
        conn_type: str,
        host: str | None,
        login: str | None,
        password: str | None,
        extra: Mapping[str, Any],
    ) -> AzureAccess:
        """Return the access of an Airflow connection of type ``wasb`` or ``adls``.

        The credential is chosen as by Airflow's hook, the first of: ``connection_string``;
        ``tenant_id`` with login and password as an application's id and secret;
        ``shared_access_key``; ``sas_token``; the password as the account's key; ``account_key``;
        ``managed_identity_client_id``; none.

        Raises:
            StoreAccessError: it names no account, or a field cannot be honoured.
        """
        given = read_extra(extra, conn_type, _KNOWN[conn_type], {})
        text = {name: text_field(given, name) for name in given if name in _TEXTS}
        if string := text.get("connection_string"):
            return _of_string(string)
        tenant, sas = text.get("tenant_id"), text.get("sas_token")
        place = text.get("account_url") or host
        if tenant is None and sas and sas.startswith(("https://", "http://")):
            place, _, sas = sas.partition("?")
        # With a tenant, and always for adls, login is the id of an application.
        account, endpoint = _place(place, None if tenant or conn_type == "adls" else login)
        if tenant:
            authority = _authority(given.get("client_secret_auth_config"))
            return cls(account, endpoint, **_application(tenant, login, password), **authority)
        if key := text.get("shared_access_key"):
            return cls(account, endpoint, key=key)
        if sas:
            return cls(account, endpoint, sas_token=sas)
        if key := password or text.get("account_key"):
            return cls(account, endpoint, key=key)
        return cls(account, endpoint, **_identity(text))


def _application(tenant: str, login: str | None, password: str | None) -> dict[str, str]:
    if not login or not password:
        raise StoreAccessError(
            "it has a tenant_id, and no client id in its login or no secret in its password",
            next_step="give both, or remove tenant_id to use another credential",
        )
    return {"tenant_id": tenant, "client_id": login, "client_secret": password}


def _authority(config: object) -> dict[str, str]:
    """Return the host of ``client_secret_auth_config``, whose other fields are refused."""
    if config is None:
        return {}
    if not isinstance(config, dict) or set(config) - {"authority"}:
        raise StoreAccessError(
            "its field client_secret_auth_config cannot be honoured, but for an authority",
            next_step='leave in it at most {"authority": "login.microsoftonline.us"}',
        )
    host = str(config.get("authority") or "")
    if not host:
        return {}
    url = host if "://" in host else f"https://{host}"
    check_endpoint(url)
    return {"authority": url}


def _identity(text: Mapping[str, str | None]) -> dict[str, str]:
    """Return the ids of a managed or workload identity; none for the environment's chain."""
    client, tenant = (
        text.get("managed_identity_client_id"),
        text.get("workload_identity_tenant_id"),
    )
    if tenant and not client:
        raise StoreAccessError(
            "it has a workload_identity_tenant_id, and no managed_identity_client_id",
            next_step="give both, or neither to use the identity of the environment",
        )
    ids = {"client_id": client, "tenant_id": tenant}
    return {name: value for name, value in ids.items() if value}


def _place(place: str | None, login: str | None) -> tuple[str, str | None]:
    """Return account and endpoint of a host field: a URL, a host name or an account's name."""
    if not place:
        return login or "", None
    url = (place if "://" in place else f"https://{place}").rstrip("/")
    host = check_endpoint(url)
    first, _, rest = host.partition(".")
    path = urlsplit(url).path.strip("/")
    if not rest and not path and "://" not in place:
        return login or first, None
    if path:  # as emulators have it
        return path.split("/")[0], url
    if rest.startswith(("blob.", "dfs.")):
        # obstore speaks with the Blob service, also of an account with a hierarchical namespace.
        return first, url.replace(f"{first}.dfs.", f"{first}.blob.", 1)
    return login or "", url


def _of_string(text: str) -> AzureAccess:
    """Return the access of a connection string, as the Azure portal shows it."""
    fields = {}
    for pair in text.strip().strip(";").split(";"):
        name, mark, value = pair.partition("=")
        if not mark:
            raise StoreAccessError(
                "its connection_string is not a list of NAME=VALUE",
                next_step="copy it from the access keys of the storage account",
            )
        fields[name.strip().lower()] = value.strip()
    if fields.get("usedevelopmentstorage"):
        raise StoreAccessError(
            "its connection_string names the emulator without an address",
            next_step="write AccountName, AccountKey and BlobEndpoint of the emulator",
        )
    account, endpoint = fields.get("accountname", ""), fields.get("blobendpoint")
    if endpoint:
        account = account or _place(endpoint, None)[0]
    elif suffix := fields.get("endpointsuffix"):
        protocol = fields.get("defaultendpointsprotocol") or "https"
        endpoint = f"{protocol}://{account}.blob.{suffix}"
    key, sas = fields.get("accountkey"), fields.get("sharedaccesssignature")
    return AzureAccess(account, endpoint, key=key or None, sas_token=None if key else sas or None)
