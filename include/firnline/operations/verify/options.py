"""Options of a check."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import Option


class VerifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a check."""

    deep: Annotated[
        bool, Option("Deep", "Read the footer of every live part too: one request for each.")
    ] = False
