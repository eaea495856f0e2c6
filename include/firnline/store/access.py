"""Endpoint and credentials of a store, as plain data that can be sent to Spark executors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from firnline.errors import StoreAccessError
from firnline.store.azure import AzureAccess
from firnline.store.endpoints import check_endpoint, is_address
from firnline.store.google import GoogleAccess

Addressing = Literal["auto", "path", "virtual"]

ACCESS_VARIABLE = "FIRNLINE_STORE_ACCESS"
"""Variable with ``StoreAccess.to_json`` of the table's Airflow connection, for a Spark job."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """Endpoint and credentials of a store: those of S3 here, of others in ``google`` and ``azure``.

    Without keys the AWS credential chain (environment, profile, container, instance role) supplies
    them and renews them, on the machine that opens the store; likewise the chain of Google or Azure
    for ``gs://`` and ``az://``. ``repr`` shows no secret; ``to_json`` contains all of them and must
    not get into an argument list, log or exception.

    Raises:
        StoreAccessError: half a key pair, or an invalid value.
    """

    endpoint: str | None = None
    """URL of an S3-compatible store; None: AWS."""
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    addressing: Addressing = "auto"
    """Place of the bucket's name in URLs. auto: the path for a custom endpoint, else the host."""
    allow_http: bool | None = None
    """Allow unencrypted requests. None: if the endpoint's URL is http."""
    profile: str | None = None
    """Profile of the AWS configuration files; None: the chain's own choice."""
    role_arn: str | None = None
    """Role to assume with the credentials above."""
    external_id: str | None = field(default=None, repr=False)
    """External id that the role's trust policy requires."""
    google: GoogleAccess | None = None
    """For ``gs://``; None: the application default credentials."""
    azure: AzureAccess | None = None
    """For ``az://``; None: account and credentials of the environment."""

    def __post_init__(self) -> None:
        if (self.access_key is None) != (self.secret_key is None):
            raise StoreAccessError(
                "an access key without its secret, or a secret without its key, was given",
                next_step="give both, or neither to use the usual AWS chain",
            )
        is_bare = self.endpoint is not None and is_address(check_endpoint(self.endpoint))
        if is_bare and self.addressing == "virtual":
            raise StoreAccessError(
                f"the store's endpoint {self.endpoint!r} is an address, so a bucket cannot be part "
                "of its name",
                next_step="use path-style addressing",
            )
        if self.addressing not in ("auto", "path", "virtual"):
            raise StoreAccessError(
                f"{self.addressing!r} is not a way to address a bucket",
                next_step="use auto, path or virtual",
            )

    @property
    def http_allowed(self) -> bool:
        """True if unencrypted requests are allowed."""
        if self.allow_http is not None:
            return self.allow_http
        return self.endpoint is not None and self.endpoint.startswith("http://")

    @property
    def path_style(self) -> bool:
        """True if the bucket's name is part of the path."""
        if self.addressing == "auto":
            return self.endpoint is not None
        return self.addressing == "path"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the secrets, which no log may show."""
        given = (self.secret_key, self.session_token, self.external_id)
        others = (other.secrets for other in (self.google, self.azure) if other is not None)
        return (*filter(None, given), *(secret for secrets in others for secret in secrets))

    def to_json(self) -> str:
        """Return everything as JSON, secrets included: never pass it in an argument list."""
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None})

    @classmethod
    def from_json(cls, text: str) -> StoreAccess:
        """Parse the result of ``to_json``. Raises StoreAccessError."""
        try:
            values = json.loads(text)
            for name, kind in (("google", GoogleAccess), ("azure", AzureAccess)):
                if name in values:
                    values[name] = kind(**values[name])
            return cls(**values)
        except (ValueError, TypeError):
            names = ", ".join(item.name for item in fields(cls))
            raise StoreAccessError(
                "the description of the store's access cannot be parsed",
                next_step=f"pass the result of StoreAccess.to_json (an object of {names})",
            ) from None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> StoreAccess:
        """Return the access in the AWS environment variables; the chain supplies the rest."""
        env = os.environ if environ is None else environ
        key, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
        # Half a key pair is ignored, as the chain does.
        both = bool(key and secret)
        return cls(
            endpoint=_endpoint(env),
            region=_region(env),
            access_key=key if both else None,
            secret_key=secret if both else None,
            session_token=(env.get("AWS_SESSION_TOKEN") or None) if both else None,
        )

    @classmethod
    def from_airflow_fields(
        cls,
        login: str | None,
        password: str | None,
        extra: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> StoreAccess:
        """Return the access of an Airflow connection of type ``aws``: login, password and extra.

        Reads the same fields as Airflow's hook: keys (also in extra), ``aws_session_token``,
        ``profile_name``, ``role_arn`` and ``assume_role_kwargs.ExternalId``, ``region_name``,
        ``endpoint_url`` (also under ``service_config.s3``), ``config_kwargs.s3.addressing_style``.
        Endpoint and region fall back to the environment, as boto3 does.
        """
        env = os.environ if environ is None else environ
        given = dict(extra or {})
        service = _sub(_sub(given, "service_config"), "s3")
        style = _sub(_sub(given, "config_kwargs"), "s3").get("addressing_style")
        key = login or given.get("aws_access_key_id") or None
        secret = password or given.get("aws_secret_access_key") or None
        return cls(
            endpoint=service.get("endpoint_url") or given.get("endpoint_url") or _endpoint(env),
            region=given.get("region_name") or _region(env),
            access_key=key,
            secret_key=secret,
            session_token=given.get("aws_session_token") or None,
            addressing=style or "auto",
            profile=given.get("profile_name") or None,
            role_arn=given.get("role_arn") or None,
            external_id=_sub(given, "assume_role_kwargs").get("ExternalId"),
        )


def _endpoint(env: Mapping[str, str]) -> str | None:
    return env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None


def _region(env: Mapping[str, str]) -> str | None:
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None


def _sub(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    below = values.get(key)
    return below if isinstance(below, Mapping) else {}
