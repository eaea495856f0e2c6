"""What a file under ``_txn/`` says, and what it must not say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firnline.errors import ForeignPathError
from firnline.ids import format_uuid7
from firnline.log import codec, txn_file
from firnline.paths import TablePaths

PATHS = TablePaths("t")
KEY = PATHS.txn(1)
TXN = format_uuid7(5, 1)
HEADER: dict[str, Any] = {"v": 1, "seq": 1, "txn": TXN, "op": "merge", "base": 0, "t": 5}


@pytest.mark.parametrize("log", ["", "t/_data/x.parquet", "u/_log/5_w-1.jsonl", "t/_log/../x"])
def test_one_whose_log_file_is_elsewhere_is_named(log: str) -> None:
    data = codec.seal(json.dumps({**HEADER, "log": log}).encode(), b"{}\n")
    with pytest.raises(ForeignPathError, match=f"the header of transaction {KEY} points to"):
        txn_file.decode(KEY, data, PATHS)
