"""The benchmark of a bucket that others keep writing still runs, and misses no row."""

from __future__ import annotations

import pytest

from benchmarks.bucket import ROWS, measure
from tools.s3server import S3Server


@pytest.mark.full("half a minute of commands, whose parts other tests show")
def test_every_file_of_the_bucket_is_taken_once(s3_server: S3Server) -> None:
    assert s3_server.port, "there is a program that serves S3"
    found = measure(files=201, new=5, days=1)
    refused, first, more, merge, _cleanup, nothing = found
    assert "part-000199.parquet is truncated" in refused.said
    assert (first.rows, more.rows, nothing.rows) == (200 * ROWS, 5 * ROWS, 0)
    assert merge.requests["get"] > 0
    assert nothing.requests["put"] == 0
