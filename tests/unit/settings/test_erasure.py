"""The section ``erasure`` of a settings file, and ``person`` of its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import SettingsError
from firnline.settings.load import Settings, load_settings
from firnline.units import DAY_MS


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "tables.yaml"
    path.write_text(text)
    return load_settings(path, strict=True)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as error:
        load(tmp_path, text)
    return str(error.value)


def test_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, "tables: {t: {root: s3://lake/t}}")
    assert settings.erasure.requests is None
    assert settings.erasure.within == 30 * DAY_MS
    assert settings.tables["t"].person is None


def test_variables_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "s3://lake")
    text = "erasure: {requests: '${LAKE}/erasures/', connection_id: '${CONN:-}'}"
    erasure = load(tmp_path, text).erasure
    assert (erasure.requests, erasure.connection_id) == ("s3://lake/erasures", None)
    assert "NOWHERE is not set" in refused(tmp_path, "erasure: {requests: '${NOWHERE}/e'}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("erasure: {requests: s3://lake}", "is a whole bucket"),
        ("erasure: {requests: s3://key:secret@lake/e}", "holds no credentials"),
        ("erasure: {requests: lake/e}", "is not the URL of a folder"),
        ("erasure: {within: 5d, remind: 7d}", "remind must be shorter than within"),
        ("erasure: {folder: s3://lake/e}", "erasure.folder"),
        ("tables: {t: {root: s3://lake/t, person: [a, A]}}", "person"),
        ("tables: {t: {root: s3://lake/t, person: id}}", "write person: [id]"),
        (
            "tables: {t: {root: s3://lake/t, person: [who], primary_key: [id]}}",
            "person has to name columns of primary_key",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


@pytest.mark.parametrize("folder", ["s3://lake/t", "s3://lake/t/erasures", "s3://lake"])
def test_requests_lie_outside_of_every_table(tmp_path: Path, folder: str) -> None:
    text = f"erasure: {{requests: {folder}/x}}\ntables: {{t: {{root: s3://lake/t}}}}"
    if folder == "s3://lake":
        assert load(tmp_path, text).erasure.requests == "s3://lake/x"
    else:
        assert "erasure.requests" in refused(tmp_path, text)


def test_the_section_is_of_the_file_that_all_share(tmp_path: Path) -> None:
    (tmp_path / "defaults.yaml").write_text("erasure: {requests: s3://lake/e}")
    (tmp_path / "a.yaml").write_text("tables: {t: {root: s3://lake/t}}")
    assert load_settings(tmp_path, strict=True).erasure.requests == "s3://lake/e"
    (tmp_path / "a.yaml").write_text("erasure: {requests: s3://lake/e}")
    with pytest.raises(SettingsError, match="holds for the tables of all files"):
        load_settings(tmp_path, strict=True)
