"""The requests of erasure that an erase carries out: by their ids, never by their keys."""

from __future__ import annotations

import msgspec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request of erasure, as an erase and its certificate name it."""

    id: str
    """UUIDv7."""
    digest: str
    """HMAC-SHA256 of the file of keys as it was handed in, with the request's own secret."""


class AskedKeys(Asked, frozen=True, kw_only=True):
    """A request with the place of its keys."""

    url: str
    """Of the file of keys in the folder of requests."""

    @property
    def asked(self) -> Asked:
        """Return what the certificate names."""
        return Asked(id=self.id, digest=self.digest)
