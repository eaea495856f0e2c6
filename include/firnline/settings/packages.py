"""Check URLs of published packages, for settings and for runs."""

from __future__ import annotations

import re

from firnline.errors import UsageError
from firnline.paths import Root

SCHEMES = ("s3", "gs", "file")
"""Of the URLs at which some platform reads a package."""
_NAME = re.compile(r"(?P<version>[0-9][^/]*)-(?P<digest>[0-9a-f]{12})")


def refuse_elsewhere(url: str) -> None:
    """Raise UsageError if no platform reads packages at a URL, or it is none of a folder."""
    if Root.parse(url, source=True).scheme not in SCHEMES:
        raise UsageError(
            f"no platform reads a package at {url}",
            next_step="publish to a bucket that it reads, at s3:// or gs://",
        )


def refuse_other(url: str) -> None:
    """Raise UsageError if a URL is not that of a published package."""
    refuse_elsewhere(url)
    if not _NAME.fullmatch(url.rsplit("/", 1)[-1]):
        raise UsageError(
            f"{url} names no published package, whose folder is called by version and digest",
            next_step="let spark.package be what `firnline spark publish URL` printed",
        )
