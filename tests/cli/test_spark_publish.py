"""``firnline spark publish``: what it says, and what it says is to be pasted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from firnline.errors import StoreAccessError
from firnline.spark.pack import closure
from tests.support.cli import Outcome

Firnline = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(names: list[str]) -> dict[str, Any]:
        return {name: one for name, one in closure(names).items() if name == "firnline"}

    monkeypatch.setattr("firnline.spark.pack.closure", small)


def test_what_is_to_be_pasted_into_the_settings_is_yaml_for_any_path(
    firnline: Firnline, tmp_path: Path
) -> None:
    root = f"file://{tmp_path}/a # b: c"
    done = firnline("spark", "publish", root)
    assert done.code == 0, done.err
    pasted = done.out.partition("settings of the tables:\n")[2]
    url = yaml.safe_load(pasted)["spark"]["package"]
    assert url.startswith(f"{root}/")
    assert Path(url.removeprefix("file://"), "manifest.json").is_file()


def test_a_repair_says_what_it_has_written_again(firnline: Firnline, tmp_path: Path) -> None:
    root = f"file://{tmp_path}/firnline"
    assert "state    written" in firnline("spark", "publish", root).out
    assert "state    it was there" in firnline("spark", "publish", root).out
    (package,) = (tmp_path / "firnline").iterdir()
    (package / "run.py").unlink()
    (package / "manifest.json").write_text("junk")
    assert "state    repaired: run.py, manifest.json" in firnline("spark", "publish", root).out
    data = json.loads(firnline("spark", "publish", root, "--json").out)
    assert (data["written"], data["repaired"]) == (False, [])


def test_a_secret_in_the_url_is_refused_and_not_said(firnline: Firnline) -> None:
    done = firnline("spark", "publish", "s3://key:hush@lake/x")
    assert done.code == 2
    assert "a URL holds no credentials" in done.err
    assert "hush" not in done.out + done.err


def test_missing_credentials_are_told_before_anything_is_packed(
    firnline: Firnline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreAccessError("there are no AWS credentials", next_step="set them")

    monkeypatch.setattr("firnline.spark.publish.open_store", refuse)
    monkeypatch.setattr("firnline.spark.publish.pack", None)
    assert "there are no AWS credentials" in firnline("spark", "publish", "s3://lake/x").err
