"""A store whose listing of the log has pages, each of its own moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from firnline.store.base import ObjectMeta


@dataclass
class Paged:
    """A store whose first listing of the log ends a page, and something happens before the next."""

    inner: Any
    meanwhile: Callable[[], None] | None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        if not prefix.endswith("/_log/") or self.meanwhile is None:
            yield from self.inner.list(prefix, start_after)
            return
        page = list(self.inner.list(prefix, start_after))
        yield from page
        self.meanwhile()
        self.meanwhile = None
        yield from self.inner.list(prefix, page[-1].key)
