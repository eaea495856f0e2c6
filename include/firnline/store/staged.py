"""Files of a ``file://`` store that a killed process was about to write.

obstore writes an object beside its place, as ``{key}#{number}``, and renames it. What a process
leaves that is killed in between is in no listing, as an upload that was never completed is on S3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from firnline.errors import StoreError
from firnline.paths import Root
from firnline.store.links import refuse_links
from firnline.store.upload import Upload

_STAGED = re.compile(r"(?P<name>.+)(?P<id>#[0-9]+)", re.DOTALL)


class StagedFiles:
    """The staged files of one folder; no request is counted, since none is sent."""

    def __init__(self, root: Root) -> None:
        self._folder = root.bucket

    def list(self, prefix: str) -> Iterator[Upload]:
        """Yield the staged files of keys below a folder. Raises StoreAccessError for links."""
        refuse_links(self._folder, [prefix])
        top = os.path.join(self._folder, prefix.rstrip("/"))  # noqa: PTH118 - a key, not a path
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                match = _STAGED.fullmatch(name)
                path = f"{folder}/{name}"
                if match is not None and not os.path.islink(path):  # noqa: PTH114 - as above
                    key = os.path.relpath(f"{folder}/{match['name']}", self._folder)
                    yield Upload(key, match["id"], os.stat(path).st_mtime_ns // 1_000_000)  # noqa: PTH116 - as above

    def list_free(self, prefixes: Iterable[str]) -> Iterator[Upload]:
        """Yield the staged files of several folders. Raises as ``list``."""
        for prefix in prefixes:
            yield from self.list(prefix)

    def abort(self, upload: Upload) -> StoreError | None:
        """Delete a staged file; returns None when it is gone, the error when it is not."""
        path = os.path.join(self._folder, upload.key + upload.upload_id)  # noqa: PTH118 - as above
        try:
            os.unlink(path)  # noqa: PTH108 - as above
        except FileNotFoundError:
            return None
        except OSError as error:
            return StoreError(
                f"{path} cannot be deleted: {error.strerror}",
                next_step="see that this user may delete there",
            )
        return None
