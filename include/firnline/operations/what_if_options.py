"""The options of a what-if."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from firnline.operations.fields import Option

_MOST = 10_000_000


class WhatIfOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a what-if."""

    set: Annotated[
        dict[str, Any],
        Option(
            "Other settings",
            "A setting of the variant, such as `merge.target_size=1GiB`, written as in the "
            "settings file.",
            absent="only how good a play is",
            metavar="SETTING=VALUE",
        ),
    ] = {}
    every: Annotated[
        int | None,
        Option(
            "Interval",
            "Interval at which merges run, such as `15m`, where something else than the settings "
            "starts them.",
            absent="the planner of the fleet, or `merge.schedule`",
            metavar="DURATION",
            unit="duration",
            least=1_000,
        ),
    ] = None
    days: Annotated[
        int,
        Option("Days", "Days to play, the newest.", absent="30", metavar="N", least=1, most=3_650),
    ] = 30
    suggest: Annotated[
        bool,
        Option(
            "Suggest",
            "Also try up to 24 variants of `merge.target_size`, `merge.min_inputs` and "
            "`merge.schedule`, and name the cheapest.",
        ),
    ] = False
    most_requests: Annotated[
        int,
        Option(
            "Requests of a scan",
            "With a suggestion: requests of a scan of yesterday at most.",
            absent="20",
            metavar="N",
            least=1,
            most=_MOST,
        ),
    ] = 20
    scans_a_day: Annotated[
        int,
        Option(
            "Scans a day",
            "Scans of yesterday a day, for their price.",
            absent="100",
            metavar="N",
            least=0,
            most=_MOST,
        ),
    ] = 100
    most_parts: Annotated[
        int,
        Option(
            "Parts to play",
            "Parts to play at most, the newest; each takes about 1 KB of memory.",
            absent="200,000",
            metavar="N",
            least=1,
            most=_MOST,
        ),
    ] = 200_000
