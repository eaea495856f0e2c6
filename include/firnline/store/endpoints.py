"""Check the URL of a store's endpoint before obstore gets it."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from firnline.errors import StoreAccessError

_HOST = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})\.)*[A-Za-z](?:[A-Za-z0-9-]{0,62})\.?")
"""A host name; its last label begins with a letter, else it would be an address."""


def check_endpoint(url: str) -> str:
    """Return the endpoint's host; an invalid URL would let obstore's Rust code panic.

    Raises:
        StoreAccessError: ``url`` is not the URL of a host.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    ok = url.startswith(("http://", "https://")) and (_HOST.fullmatch(host) or is_address(host))
    if not ok or "@" in url or "?" in url or "#" in url:
        # The URL is not repeated if it could contain a password or a signature.
        shown = "" if "@" in url or "?" in url else f" {url!r}"
        raise StoreAccessError(
            f"the store's endpoint{shown} is not a URL of a host",
            next_step="write it as https://host or http://host:port",
        )
    return host


def is_address(host: str) -> bool:
    """Return True for an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
