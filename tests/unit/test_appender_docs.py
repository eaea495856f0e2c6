"""docs/appender.md: its examples run, its defaults are the settings'."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from firnline.settings.model import TableSettings
from firnline.settings.sections import AppenderSettings
from firnline.units import format_duration, format_size
from tools.bootstrap import REPO

TEXT = (REPO / "docs" / "appender.md").read_text()


@pytest.mark.long
def test_the_examples_print_what_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(examples) == 2
    for code in 2 * examples:
        exec(code.replace("/tmp/", f"{tmp_path}/"), {})  # noqa: S102 - of our own page
        assert f"prints `{capsys.readouterr().out.strip()}`" in TEXT


def test_the_columns_that_the_page_declares_are_columns() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    declared = {"name": "flights", **yaml.safe_load(text)["tables"]["flights"]}
    assert list(TableSettings.model_validate(declared).columns) == ["id", "at", "delay", "tags"]


def test_every_bound_is_described_with_its_default() -> None:
    policy = AppenderSettings()
    shown = {
        "rows": f"{policy.rows:,}",
        "bytes": format_size(policy.bytes),
        "age": format_duration(policy.age),
        "frozen": str(policy.frozen),
    }
    assert shown.keys() == AppenderSettings.model_fields.keys()
    for name, default in shown.items():
        assert f"`append.service.{name}` | {default} |" in TEXT
