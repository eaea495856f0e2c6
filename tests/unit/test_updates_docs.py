"""docs/updates.md: its settings are settings, its example prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.read.scan import scan
from firnline.settings.load import find_table
from firnline.table import open_table
from tools.bootstrap import REPO

TEXT = (REPO / "docs" / "updates.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_example_prints_what_the_page_says_before_and_after_a_merge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ((name, settings),) = re.findall(r"```yaml title=\"(.*?)\"\n(.*?)```", TEXT, re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    # Set first: what the page sets is undone only then.
    monkeypatch.setenv("FIRNLINE_TABLES", "")
    Path(name).write_text(settings.replace("/tmp/", f"{tmp_path}/"))
    printed = ""
    for _ in range(2):
        exec(code.replace("/tmp/", f"{tmp_path}/"), {})  # noqa: S102 - of our own page
        printed = capsys.readouterr().out.strip()
        assert f"prints `{printed}`" in TEXT
    table = open_table(find_table("users"))
    engine = LocalEngine(
        lambda: open_table(find_table("users")).store, tmp_path, SystemIds(), SystemClock()
    )
    policy = table.settings.merge.model_copy(update={"min_inputs": 2})
    eager = table.settings.model_copy(update={"merge": policy})
    merged = open_table(eager)
    assert run_merge(Work(merged, RunIdentity(), lambda: engine), MergeOptions()).groups_done == 1
    assert str(scan("users", ["id", "name"]).to_arrow().to_pylist()) == printed
    assert scan("users", dedup=False).to_arrow().num_rows == 2  # with the key tombstone
