"""Settings files written by tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import SettingsError
from firnline.settings.load import Settings, TableSettings, load_settings


def loaded(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "tables.yaml"
    path.write_text(text)
    return load_settings(path, strict=True)


def one(tmp_path: Path, settings: str) -> TableSettings:
    """A table ``t`` with these settings, given as a YAML flow mapping without its brackets."""
    return loaded(tmp_path, f"tables:\n  t: {{root: 's3://b/t', {settings}}}\n").table("t")


def mistakes(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as raised:
        loaded(tmp_path, text)
    assert str(tmp_path / "tables.yaml") in str(raised.value)
    assert str(raised.value).endswith("correct the file and run `firnline settings check`")
    return str(raised.value)
