"""Listing and aborting uploads, without a store: botocore's stubs stand for its answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from firnline.errors import StoreAccessError
from firnline.store.access import StoreAccess
from firnline.store.base import Counters
from firnline.store.multipart import Uploads, open_uploads
from firnline.store.upload import Upload

ACCESS = StoreAccess(
    endpoint="http://localhost:9", region="us-east-1", access_key="a", secret_key="b"
)
BEGAN = datetime(2026, 1, 2, tzinfo=UTC)
UPLOAD = Upload("t/_data/x.parquet", "id-1", round(BEGAN.timestamp() * 1000))


@pytest.fixture
def uploads() -> Uploads:
    found = open_uploads("s3://bucket/t", ACCESS, Counters(), attempts=1)
    assert isinstance(found, Uploads)
    return found


@pytest.fixture
def stub(uploads: Uploads) -> Iterator[Stubber]:
    with Stubber(uploads._client) as stub:
        yield stub


def page(number: int, **more: Any) -> dict[str, Any]:
    found = {"Key": UPLOAD.key, "UploadId": f"id-{number}", "Initiated": BEGAN}
    return {"Uploads": [found], **more}


@pytest.mark.long
def test_a_page_begins_behind_the_last_upload_of_the_one_before(
    uploads: Uploads, stub: Stubber
) -> None:
    """Behind its key alone, the other uploads of that key would be left out."""
    asked = {"Bucket": "bucket", "Prefix": "t/_data/"}
    more = page(1, IsTruncated=True, NextKeyMarker=UPLOAD.key, NextUploadIdMarker="id-1")
    stub.add_response("list_multipart_uploads", more, asked)
    behind = {"KeyMarker": UPLOAD.key, "UploadIdMarker": "id-1"}
    stub.add_response("list_multipart_uploads", page(2), {**asked, **behind})
    assert [upload.upload_id for upload in uploads.list("t/_data/")] == ["id-1", "id-2"]


@pytest.mark.long
def test_an_upload_is_aborted_by_its_own_id(uploads: Uploads, stub: Stubber) -> None:
    asked = {"Bucket": "bucket", "Key": UPLOAD.key, "UploadId": UPLOAD.upload_id}
    stub.add_response("abort_multipart_upload", {}, asked)
    assert uploads.abort(UPLOAD) is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "status", "error"),
    [("NoSuchUpload", 404, type(None)), ("AccessDenied", 403, StoreAccessError)],
)
def test_an_upload_is_gone_only_when_the_store_says_so(
    uploads: Uploads, stub: Stubber, code: str, status: int, error: type
) -> None:
    stub.add_client_error("abort_multipart_upload", code, http_status_code=status)
    assert isinstance(uploads.abort(UPLOAD), error)
