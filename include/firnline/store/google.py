"""Credentials of Google Cloud Storage, as in a connection of type ``google_cloud_platform``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firnline.errors import StoreAccessError
from firnline.store.endpoints import check_endpoint
from firnline.store.extra import read_extra, text_field

_NEEDED = ("client_email", "private_key", "private_key_id")
"""Fields of a key that obstore reads; it signs its tokens itself and asks no other service."""
_OPTIONAL = {"gcs_base_url": str, "disable_oauth": bool}
"""obstore's own, for an emulator."""
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""The scope of every token of obstore."""
_RIVALS = (
    *("GOOGLE_BEARER_TOKEN", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH"),
    "SERVICE_ACCOUNT",
)
"""Environment variables that obstore prefers to a key, or refuses beside one."""
_IMPERSONATE = "firnline's store client signs with the key itself and impersonates nobody"
_EXTERNAL = "firnline's store client knows service account keys and the default credentials only"
_REFUSED = {
    "impersonation_chain": _IMPERSONATE,
    "key_secret_name": "firnline does not read the Secret Manager",
    "key_secret_project_id": "firnline does not read the Secret Manager",
    "credential_config_file": _EXTERNAL,
    "idp_issuer_url": _EXTERNAL,
    "idp_extra_parameters": _EXTERNAL,
    "idp_extra_params": _EXTERNAL,
    "client_id": _EXTERNAL,
    "client_secret": _EXTERNAL,
    "is_anonymous": "a table cannot be maintained without an identity",
    "quota_project_id": "firnline's store client charges the project of the bucket only",
}
# project and num_retries mean nothing here: a bucket's name is global, and retries are firnline's.
_KNOWN = {"keyfile_dict", "key_path", "scope", "scopes", "project", "num_retries"}
_STEP = "give the JSON key of a service account, as the Google Cloud console writes it"


@dataclass(frozen=True, slots=True)
class GoogleAccess:
    """A service account's key; without one, the application default credentials.

    Raises:
        StoreAccessError: the key is not one of a service account.
    """

    key: str | None = field(default=None, repr=False)
    """JSON of the key, as obstore takes it."""

    def __post_init__(self) -> None:
        if self.key is not None and (url := _checked(self.key).get("gcs_base_url")):
            check_endpoint(url)

    @property
    def url(self) -> str | None:
        """URL of the endpoint that the key names, of an emulator; None: Google's."""
        url: str | None = None if self.key is None else json.loads(self.key).get("gcs_base_url")
        return url

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the secrets, which no log may show: the key, and each of its lines."""
        if self.key is None:
            return ()
        private = json.loads(self.key)["private_key"]
        lines = [line for line in private.splitlines() if line and not line.startswith("-----")]
        return tuple(dict.fromkeys((private, json.dumps(private)[1:-1], *lines)))

    def config(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """Return the options of obstore's store.

        Raises:
            StoreAccessError: a variable of the environment would take the place of the key.
        """
        if self.key is None:
            return {}
        rival = next((name for name in _RIVALS if environ.get(name)), None)
        if rival is not None:
            raise StoreAccessError(
                f"the environment variable {rival} would take the place of the connection's key",
                next_step=f"unset {rival} where firnline runs, or leave out connection_id",
            )
        return {"service_account_key": self.key, "skip_signature": False}

    @classmethod
    def from_airflow_fields(cls, extra: Mapping[str, Any]) -> GoogleAccess:
        """Return the access of an Airflow connection of type ``google_cloud_platform``.

        Reads ``keyfile_dict`` (JSON or a mapping) or ``key_path``, whose file is read here: it need
        not exist where the executors run.

        Raises:
            StoreAccessError: the key cannot be read, or a field cannot be honoured.
        """
        given = read_extra(extra, "google_cloud_platform", _KNOWN, _REFUSED)
        _check_scopes(given.get("scope") or given.get("scopes"))
        inline, path = given.get("keyfile_dict"), text_field(given, "key_path")
        if inline is not None and path is not None:
            raise StoreAccessError(
                "it has two keys, in keyfile_dict and key_path", next_step="leave one of them out"
            )
        if path is not None:
            inline = _read(path)
        return cls() if inline is None else cls(_normal(inline))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise StoreAccessError(
            f"the key file {path} of key_path cannot be read: {why}",
            next_step="put the file where Airflow's workers find it, or its text into keyfile_dict",
        ) from None


def _normal(key: object) -> str:
    """Return only what obstore reads of a key, so that nothing else travels with it."""
    key_fields = _checked(json.dumps(key) if isinstance(key, dict) else str(key))
    # Some forms and secrets backends escape the line breaks once more.
    key_fields["private_key"] = key_fields["private_key"].replace("\\n", "\n")
    return json.dumps(
        {name: key_fields[name] for name in (*_NEEDED, *_OPTIONAL) if name in key_fields}
    )


def _checked(key: str) -> dict[str, Any]:
    """Parse a key. Raises StoreAccessError, which never repeats any of its values."""
    try:
        fields = json.loads(key)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise StoreAccessError("the service account's key is not a JSON object", next_step=_STEP)
    missing = [name for name in _NEEDED if not isinstance(fields.get(name), str)]
    if missing:
        raise StoreAccessError(
            f"the service account's key has no {' and no '.join(missing)}", next_step=_STEP
        )
    for name, kind in _OPTIONAL.items():
        if not isinstance(fields.get(name, kind()), kind):
            raise StoreAccessError(
                f"{name} of the service account's key is not valid", next_step=f"remove {name}"
            )
    return fields


def _check_scopes(given: object) -> None:
    scopes = given.split(",") if isinstance(given, str) else given
    if scopes is None or (isinstance(scopes, list) and _SCOPE in map(str.strip, map(str, scopes))):
        return
    raise StoreAccessError(
        "its field scope cannot be honoured: the tokens of firnline's store client have the scope "
        "cloud-platform",
        next_step="remove scope, and limit what the service account may do by its IAM roles",
    )
