"""A service that appends for ever and says what was acknowledged: to be killed.

``python -m tests.support.append_child ROOT`` prints a line of numbers in JSON for each flush, after
it was acknowledged: those of its rows.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from itertools import count

from firnline.appends.append import AppendResult
from firnline.appends.buffer import Ack
from firnline.appends.service import Appender
from firnline.settings.load import TableSettings
from firnline.table import open_table


def main(root: str) -> None:
    """Append two rows at a time, into three partitions."""
    settings = TableSettings.model_validate(
        {"name": "t", "root": root, "partition_by": ["bucket(3, n)"], "sort_by": ["n desc"]}
    )
    given: dict[Ack, list[int]] = defaultdict(list)

    def say(ack: Ack) -> AppendResult:
        result = ack.result()
        # One write: a line is there as a whole or not at all.
        os.write(1, json.dumps(given.pop(ack)).encode() + b"\n")
        return result

    with Appender(open_table(settings), max_rows=400, max_age_ms=20, max_frozen=3) as appender:
        before: list[Ack] = []
        for n in count(0, 2):
            ack = appender.append([{"n": n, "s": "x" * (n % 50)}, {"n": n + 1}])
            given[ack] += [n, n + 1]
            if not before or before[-1] is not ack:
                before.append(ack)
            while len(before) > 1 and before[0].done():
                say(before.pop(0))


if __name__ == "__main__":
    main(sys.argv[1])
