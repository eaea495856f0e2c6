"""The requests of erasure that an erase carries out: by their ids, never by their keys."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import msgspec

from firnline.errors import UsageError


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


def file_digest(secret: str, pieces: Iterable[bytes]) -> str:
    """Return the HMAC-SHA256 of a file of keys, 64 hexadecimal digits.

    Args:
        secret: of the request, hexadecimal.
        pieces: the file, one after the other.
    """
    digest = hmac.new(bytes.fromhex(secret), digestmod=hashlib.sha256)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def asked_of(given: object) -> tuple[AskedKeys, ...]:
    """Return requests, also from plain data as a job and a form have them. Raises UsageError."""
    plain = msgspec.to_builtins(given)
    try:
        return msgspec.convert(plain, tuple[AskedKeys, ...])
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the requests of this run are none: {error}",
            next_step="leave them to `firnline erasure run`, or to the DAG erase_person",
        ) from None
