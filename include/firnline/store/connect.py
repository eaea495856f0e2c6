"""Open the obstore object of a root: its class, credentials and timeouts.

obstore reads ``AWS_*`` variables by itself, so a stray AWS_SESSION_TOKEN or AWS_CONDITIONAL_PUT
would affect a store with explicit access. So credentials always come from a provider, and every
relevant option is set explicitly. For Google and Azure, obstore has no such variable that beats
what ``GoogleAccess`` and ``AzureAccess`` set, or they refuse it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore.store
from obstore.exceptions import BaseError

from firnline.errors import StoreAccessError, UsageError, first_line
from firnline.paths import Root
from firnline.store.access import StoreAccess
from firnline.store.azure import AzureAccess
from firnline.store.google import GoogleAccess
from firnline.store.multipart import open_bucket

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Credential, S3CredentialProvider

CONNECT_TIMEOUT = timedelta(seconds=5)
READ_TIMEOUT = timedelta(seconds=30)
"""Longest pause within an answer; a slow transfer goes on."""
REQUEST_TIMEOUT = timedelta(minutes=15)
"""Longest duration of a request with its body: 5 GB at 6 MB/s."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
DEFAULT_REGION = "us-east-1"
_memory: dict[str, obstore.store.MemoryStore] = {}
_memory_lock = threading.Lock()

_NO_RETRY: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(0)}
_PART_RETRY: RetryConfig = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}


@dataclass(frozen=True, slots=True)
class Backend:
    """One bucket, container or folder."""

    scheme: str
    where: str
    """Location for messages: ``s3://bucket at http://host``."""
    small: obstore.store.ObjectStore | None
    """For all requests but uploads, without obstore's own retries. None: the folder is missing."""
    upload: obstore.store.ObjectStore | None
    """For uploads: obstore itself retries a failed part, so that one lost part of a
    large file does not send the whole file again."""
    second: Callable[[], Any] | None = None
    """Opens a client of boto3 for the same bucket, on S3 alone; raises StoreAccessError."""


def open_backend(root: Root, access: StoreAccess | None) -> Backend:
    """Open the store of ``root``; sends no request, but the AWS chain may request credentials.

    Raises:
        StoreAccessError: there are no credentials, or the settings are invalid.
    """
    where = f"{root.scheme}://{root.bucket}"
    if root.scheme == "file":
        return open_folder(root.bucket, create=False)
    if root.scheme == "memory":
        with _memory_lock:
            memory = _memory.setdefault(root.bucket, obstore.store.MemoryStore())
        return Backend("memory", where, memory, memory)
    make: Callable[[RetryConfig], obstore.store.ObjectStore]
    second = None
    if root.scheme == "s3":
        resolved = StoreAccess.from_env() if access is None else access
        where += f" at {resolved.endpoint}" if resolved.endpoint else ""
        make = _s3(root.bucket, resolved, where)
        second = partial(open_bucket, root, resolved, 1)
    elif root.scheme in ("gs", "az"):
        given = _given(root.scheme, access)
        where += f" at {given.url}" if given is not None and given.url else ""
        make = _gs_or_az(root, given)
    else:
        raise UsageError(f"there is no store for {root.url!r}", next_step="use s3://, gs://, az://")
    try:
        return Backend(root.scheme, where, make(_NO_RETRY), make(_PART_RETRY), second)
    except (BaseError, ValueError) as error:
        raise StoreAccessError(
            f"{where} cannot be opened: {first_line(error)}",
            next_step="correct the root, or the endpoint and credentials of the connection or the "
            "environment",
        ) from None


def open_folder(folder: str, *, create: bool) -> Backend:
    """Open a local folder; with ``create``, create it. Raises StoreAccessError when it cannot."""
    where = f"file://{folder}"
    if not create and not Path(folder).is_dir():
        return Backend("file", where, None, None)
    try:
        # Empty folders stay: removing them would race with a writer that has just found them.
        local = obstore.store.LocalStore(folder, mkdir=create)
    except (BaseError, OSError) as error:
        raise StoreAccessError(
            f"the folder {folder} cannot be opened: {first_line(error)}",
            next_step="check the path and its permissions",
        ) from None
    return Backend("file", where, local, local)


def _client(*, http: bool) -> ClientConfig:
    return {
        "allow_http": http,
        "connect_timeout": CONNECT_TIMEOUT,
        "read_timeout": READ_TIMEOUT,
        "timeout": REQUEST_TIMEOUT,
    }


def _given(scheme: str, access: StoreAccess | None) -> GoogleAccess | AzureAccess | None:
    """Return the access to a store that is not on S3; None for its default chain."""
    if access is None:
        return None
    return access.google if scheme == "gs" else access.azure


def _gs_or_az(
    root: Root, access: GoogleAccess | AzureAccess | None
) -> Callable[[RetryConfig], obstore.store.ObjectStore]:
    kind = obstore.store.GCSStore if root.scheme == "gs" else obstore.store.AzureStore
    config: dict[str, Any] = {} if access is None else access.config(os.environ)
    client = _client(http=access is not None and (access.url or "").startswith("http://"))

    def make(retry: RetryConfig) -> obstore.store.ObjectStore:
        return kind(root.bucket, client_options=client, retry_config=retry, **config)

    return make


def _s3(
    bucket: str, access: StoreAccess, where: str
) -> Callable[[RetryConfig], obstore.store.ObjectStore]:
    provider, region = _credentials(access, where)
    if _BUCKET.fullmatch(bucket) is None:
        raise StoreAccessError(
            f"{bucket!r} is not a bucket name", next_step="correct the table's root"
        )
    endpoint = None if access.endpoint is None else access.endpoint.rstrip("/")
    if endpoint is not None and not access.path_style:
        # Here obstore expects the bucket in the endpoint's host.
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
    config: dict[str, Any] = {} if endpoint is None else {"aws_endpoint_url_s3": endpoint}

    def make(retry: RetryConfig) -> obstore.store.ObjectStore:
        return obstore.store.S3Store(
            bucket,
            region=access.region or region or DEFAULT_REGION,
            virtual_hosted_style_request=not access.path_style,
            conditional_put="etag",
            skip_signature=False,
            disable_bulk_delete=False,
            credential_provider=provider,
            client_options=_client(http=access.http_allowed),
            retry_config=retry,
            **config,
        )

    return make


def _credentials(access: StoreAccess, where: str) -> tuple[S3CredentialProvider, str | None]:
    """Return a credential provider, and the region in the AWS configuration."""
    if access.access_key is not None and access.role_arn is None:
        return _static(access), None
    # Importing it takes 0.3 s, and only the chain needs it.
    import boto3
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import (
        Boto3CredentialProvider,
        StsCredentialProvider,
    )

    try:
        session = boto3.Session(
            aws_access_key_id=access.access_key,
            aws_secret_access_key=access.secret_key,
            aws_session_token=access.session_token,
            profile_name=access.profile,
            region_name=access.region,
        )
        if access.role_arn is not None:
            role: dict[str, Any] = {"RoleArn": access.role_arn, "RoleSessionName": "firnline"}
            if access.external_id:
                role["ExternalId"] = access.external_id
            return StsCredentialProvider(session, **role), session.region_name
        credentials = session.get_credentials()
    except (BotoCoreError, ValueError) as error:
        raise StoreAccessError(
            f"the AWS credentials for {where} cannot be loaded: {first_line(error)}",
            next_step="correct the AWS profile, or name an Airflow connection in connection_id",
        ) from None
    if credentials is None:
        raise StoreAccessError(
            f"there are no AWS credentials for {where}",
            next_step="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or an instance "
            "role, or name an Airflow connection in connection_id",
        )
    return Boto3CredentialProvider(session), session.region_name


def _static(access: StoreAccess) -> S3CredentialProvider:
    def provide() -> S3Credential:
        return {
            "access_key_id": access.access_key or "",
            "secret_access_key": access.secret_key or "",
            "token": access.session_token,
            "expires_at": None,
        }

    return provide


def forget_memory(name: str) -> None:
    """Drop a ``memory://`` store; open Store objects keep it."""
    with _memory_lock:
        _memory.pop(name, None)
