from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from firnline.airflow import access
from tests.support.tables import one


def test_every_secret_of_a_connection_is_masked_in_logs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    extra = {
        "aws_session_token": "TOKEN",
        "role_arn": "arn:aws:iam::1:role/r",
        "assume_role_kwargs": {"ExternalId": "EXTERNAL"},
    }
    connection = SimpleNamespace(
        conn_type="aws", login="KEY", password="SECRET", extra_dejson=extra
    )
    masked: list[str] = []
    monkeypatch.setattr(access, "connection", lambda *_: connection)
    monkeypatch.setattr(access, "mask_secret", masked.append)
    found = access.store_access(one(tmp_path, "connection_id: lake"))
    assert found is not None
    assert set(masked) == {"SECRET", "TOKEN", "EXTERNAL"}
