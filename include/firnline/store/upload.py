"""An upload that was neither completed nor aborted: which one, and what can be done with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from firnline.errors import StoreError


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that was neither completed nor aborted; of a folder, a staged file."""

    key: str
    upload_id: str
    began_ms: int
    """Start of the upload by the store's clock, unix milliseconds."""

    @property
    def name(self) -> str:
        """Name of the upload in lists of keys."""
        return f"{self.key}?uploadId={self.upload_id}"


class OpenUploads(Protocol):
    """The uploads of one store."""

    def list(self, prefix: str) -> Iterator[Upload]:
        """Yield the open uploads of keys that begin with ``prefix``. Raises StoreError."""
        ...

    def list_free(self, prefixes: Iterable[str]) -> Iterator[Upload]:
        """Yield those of keys below further folders, where it costs no request; else none."""
        ...

    def abort(self, upload: Upload) -> StoreError | None:
        """Abort an upload; returns None when it is gone, the error when that is not certain."""
        ...
