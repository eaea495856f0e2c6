"""Abandoned multipart uploads, which an S3 store keeps and bills, and shows in no listing.

Uses boto3, since obstore does not support these requests; imported lazily.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from firnline.errors import StoreAccessError, StoreError, StoreUnavailableError
from firnline.next_steps import CHECK_ENDPOINT, STORE_LOG
from firnline.paths import Root
from firnline.store.access import StoreAccess
from firnline.store.base import Counters
from firnline.store.staged import StagedFiles
from firnline.store.upload import OpenUploads, Upload

_TRANSIENT = {408, 429, 500, 502, 503, 504}
_ATTEMPTS = 8


class Uploads:
    """The multipart uploads of one bucket."""

    def __init__(self, root: Root, access: StoreAccess, counters: Counters, attempts: int) -> None:
        self._bucket, self._counters = root.bucket, counters
        self._where, self._client = open_bucket(root, access, attempts)

    def list(self, prefix: str) -> Iterator[Upload]:
        """Yield the open uploads of keys that begin with ``prefix``, 1,000 a request.

        Raises:
            StoreError: a request failed.
        """
        marks: dict[str, str] = {}
        while True:
            self._counters.add({"list": 1})
            with translated(f"listing the uploads of {prefix} in {self._where}"):
                page = self._client.list_multipart_uploads(
                    Bucket=self._bucket, Prefix=prefix, **marks
                )
            for upload in page.get("Uploads", ()):
                began_ms = round(upload["Initiated"].timestamp() * 1000)
                yield Upload(upload["Key"], upload["UploadId"], began_ms)
            if not page.get("IsTruncated"):
                return
            marks = {
                "KeyMarker": page["NextKeyMarker"],
                "UploadIdMarker": page["NextUploadIdMarker"],
            }

    def list_free(self, prefixes: Iterable[str]) -> Iterator[Upload]:  # noqa: ARG002 - of the protocol
        """Yield nothing: it would cost a request each, and small objects are put in one piece."""
        return iter(())

    def abort(self, upload: Upload) -> StoreError | None:
        """Abort an upload; returns None when it is gone, the error when that is not certain.

        A completed object of the same key is not affected.
        """
        self._counters.add({"delete": 1})
        try:
            with translated(f"aborting the upload of {upload.key} in {self._where}"):
                self._client.abort_multipart_upload(
                    Bucket=self._bucket, Key=upload.key, UploadId=upload.upload_id
                )
        except _GoneError:
            return None
        except StoreError as error:
            return error
        return None


class _GoneError(StoreError):
    """There is no such upload: it was completed or aborted meanwhile."""


def open_uploads(
    root: str, access: StoreAccess | None, counters: Counters, attempts: int = _ATTEMPTS
) -> OpenUploads | None:
    """Return the uploads of a table's bucket, or the staged files of its folder; None elsewhere.

    Args:
        root: root URL of the table.
        access: as for ``open_store``.
        counters: of the table's store; the requests are added to them.
        attempts: attempts of a request with transient failures at most.

    Raises:
        StoreAccessError: no credentials.
    """
    parsed = Root.parse(root)
    if parsed.scheme == "file":
        return StagedFiles(parsed)
    if parsed.scheme != "s3":
        return None
    resolved = StoreAccess.from_env() if access is None else access
    return Uploads(parsed, resolved, counters, attempts)


def open_bucket(root: Root, access: StoreAccess, attempts: int = _ATTEMPTS) -> tuple[str, Any]:
    """Return a bucket's name for errors, and a client of boto3, which has no types.

    Raises StoreAccessError: no credentials.
    """
    where = f"s3://{root.bucket}" + (f" at {access.endpoint}" if access.endpoint else "")
    with translated(f"opening {where}"):
        return where, s3_client(access, attempts)


def s3_client(access: StoreAccess, attempts: int) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a client of boto3. Raises what ``translated`` translates."""
    import boto3
    from botocore.config import Config

    session = boto3.Session(
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret_key,
        aws_session_token=access.session_token,
        profile_name=access.profile,
        region_name=access.region,
    )
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "path" if access.path_style else "virtual"},
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=5,
        read_timeout=30,
        # Only the given endpoint is used, as for the other client.
        ignore_configured_endpoint_urls=True,
    )
    given = _assumed(session, access) if access.role_arn else {}
    region = session.region_name or "us-east-1"
    return session.client(
        "s3", endpoint_url=access.endpoint, region_name=region, config=config, **given
    )


def _assumed(session: Any, access: StoreAccess) -> dict[str, str]:  # noqa: ANN401 - as above
    """Return temporary keys of the role, which last as long as a listing takes."""
    role = {"RoleArn": access.role_arn, "RoleSessionName": "firnline"}
    if access.external_id:
        role["ExternalId"] = access.external_id
    credentials = session.client("sts").assume_role(**role)["Credentials"]
    return {
        "aws_access_key_id": credentials["AccessKeyId"],
        "aws_secret_access_key": credentials["SecretAccessKey"],
        "aws_session_token": credentials["SessionToken"],
    }


@contextmanager
def translated(request: str) -> Iterator[None]:
    """Translate boto3's exceptions to StoreErrors, without their text, which may hold a secret."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,  # noqa: A004 - botocore's name
        HTTPClientError,
    )

    try:
        yield
    except ClientError as error:
        raise _answer(error.response, request) from None
    except (ConnectionError, HTTPClientError) as error:
        raise StoreUnavailableError(
            f"{request} failed: {type(error).__name__}",
            next_step=CHECK_ENDPOINT,
        ) from None
    except (BotoCoreError, ValueError) as error:
        raise StoreAccessError(
            f"{request} failed: {type(error).__name__}",
            next_step="check endpoint, region and credentials",
        ) from None


def _answer(response: dict[str, Any], request: str) -> StoreError:
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = response.get("Error", {}).get("Code") or str(status)
    sentence = f"{request} failed: {status} {code}"
    if code == "NoSuchUpload":
        return _GoneError(sentence, next_step="nothing is left to do")
    if status in _TRANSIENT:
        return StoreUnavailableError(sentence, next_step="try again when the store answers")
    if status in {301, 400, 401, 403, 404}:
        return StoreAccessError(
            sentence,
            next_step="check bucket and credentials; they need s3:ListBucketMultipartUploads and "
            "s3:AbortMultipartUpload",
        )
    return StoreError(sentence, next_step=STORE_LOG)
