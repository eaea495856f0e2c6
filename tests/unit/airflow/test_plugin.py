"""The plugin, which the package registers by an entry point."""

from __future__ import annotations

import tomllib
from importlib import import_module

import pytest

from firnline.airflow import plugin
from tools.bootstrap import REPO


def test_the_package_says_where_airflow_finds_it() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    (name, place), *others = project["entry-points"]["airflow.plugins"].items()
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    assert (name, others) == ("firnline", [])
    assert found.name == "firnline"
    assert {each.__name__.rpartition(".")[2] for each in found.listeners} == {
        "conf_guard",
        "notes",
        "pool_guard",
    }


def test_an_airflow_2_gets_nothing_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "AIRFLOW_3_0_PLUS", False)
    assert plugin.make_plugin() is None
