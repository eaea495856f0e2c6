"""Prices of requests. Imports nothing of the package: the command line shows them in its help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firnline.operations.inspect.cost import Requests

PUT, GET = 0.005, 0.0004
"""US dollars for 1,000 requests of S3 Standard in us-east-1."""


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for 1,000 requests."""

    put: float = PUT
    """For PUT, COPY, POST and LIST."""
    get: float = GET

    def of(self, requests: Requests) -> float:
        """Return dollars; a DELETE costs nothing."""
        return (self.put * (requests.put + requests.list) + self.get * requests.get) / 1_000
