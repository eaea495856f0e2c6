"""pyiceberg's access to files, by way of the table's own store.

Manifests and metadata lie under the table's root, so they are read and written with the access,
the retries and the counters of the table. pyiceberg makes such an object by the name of its class
and properties of text, so a store is handed over under a name.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from firnline.errors import ObjectNotFoundError
from firnline.paths import Root
from firnline.store.base import Store
from firnline.store.create import create

IMPLEMENTATION = "firnline.mirror.iceberg.io.StoreIO"
PLACE = "firnline.place"
"""Property that names the place."""
_NUMBERS = count()


class StateTooOldError(Exception):
    """A file of a state that was read too long ago was not written."""


@dataclass(eq=False)
class Place:
    """The store of a table, and where the table lies in it."""

    store: Store
    root: Root
    _in_time: Callable[[], bool] | None = None

    @contextmanager
    def while_in_time(self, in_time: Callable[[], bool]) -> Iterator[None]:
        """Refuse to write files once ``in_time`` returns False.

        A process that stood still must not write what ``sweep`` and certificates of erases take for
        long over. pyiceberg sends several requests in one call, so this is asked before each.

        Raises StateTooOldError: in place of a write.
        """
        self._in_time = in_time
        try:
            yield
        finally:
            self._in_time = None

    def put(self, key: str, data: bytes) -> None:
        """Create a file. Raises StateTooOldError, FileExistsError."""
        if not self._may_put():
            raise StateTooOldError(key)
        if create(self.store, key, data, may_put=self._may_put) is not None:
            raise FileExistsError(key)

    def _may_put(self) -> bool:
        return self._in_time is None or self._in_time()


_PLACES: WeakValueDictionary[str, Place] = WeakValueDictionary()


def register(place: Place) -> str:
    """Return a name under which pyiceberg finds a place while somebody holds it."""
    name = str(next(_NUMBERS))
    _PLACES[name] = place
    return name


class StoreIO(FileIO):
    """Files under the root of one table."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(dict(properties))
        self._place = _PLACES[properties[PLACE]]

    def new_input(self, location: str) -> InputFile:
        return _Input(self._place, location)

    def new_output(self, location: str) -> OutputFile:
        return _Output(self._place, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse: what goes, and when, is decided in ``sweep``."""
        raise PermissionError(f"{location} is not deleted by pyiceberg")


class _Input(InputFile):
    def __init__(self, place: Place, location: str) -> None:
        super().__init__(location)
        self._store, self._key = place.store, place.root.key_of(location)

    def __len__(self) -> int:
        return self._store.head(self._key).size

    def exists(self) -> bool:
        try:
            self._store.head(self._key)
        except ObjectNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - pyiceberg's interface
        try:
            return io.BytesIO(self._store.get(self._key))
        except ObjectNotFoundError as error:
            raise FileNotFoundError(self.location) from error


class _Output(OutputFile):
    def __init__(self, place: Place, location: str) -> None:
        super().__init__(location)
        self._place = place
        self._stream: _Stream | None = None

    def __len__(self) -> int:
        if self._stream is not None:
            return self._stream.size
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self._place, self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002 - names are fresh
        self._stream = _Stream(self._place, self._place.root.key_of(self.location))
        return self._stream


class _Stream(io.BytesIO):
    """Bytes of one object, which is put when they are complete."""

    def __init__(self, place: Place, key: str) -> None:
        super().__init__()
        self._place, self._key = place, key
        self.size = 0

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            self.size = len(data)
            super().close()
            self._place.put(self._key, data)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Any:  # noqa: ANN401 - as its base
        if kind is not None:
            io.BytesIO.close(self)
        self.close()
