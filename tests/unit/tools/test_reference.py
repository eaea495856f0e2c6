"""The generated tables of docs/: not stale, and nothing in them is without a meaning.

The params of DAGs are checked in tests/unit/airflow/test_dag_files.py, which has them loaded.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from firnline.operations.registry import DAGS
from firnline.properties.in_force import FIELDS
from firnline.settings.erasure import ErasureSettings
from firnline.settings.fleet import FleetSettings
from firnline.settings.launchers import PLATFORMS, section_of
from firnline.settings.load import load_settings
from firnline.settings.model import TableSettings
from firnline.units import parse_duration, parse_size
from tools.bootstrap import REPO
from tools.reference import __main__ as reference
from tools.reference import cli, markdown, settings
from tools.reference.__main__ import DOCS, main
from tools.reference.markdown import PageError, fill, prose, table

PAGES = ("settings-reference", "cli", "why", "help")
SETTINGS = {each.name: each for group in settings.groups() for each in group.settings}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder with a copy of the pages."""
    for page in PAGES:
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        (tmp_path / f"{page}.md").write_text(text, encoding="utf-8")
    return tmp_path


# --- the pages ------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_pages_are_not_stale() -> None:
    assert reference.check(PAGES) == []


@pytest.mark.parametrize(
    ("page", "row"),
    [
        ("settings-reference", "| `merge.compression_level` | integer | `3` |"),
        ("cli", "| `--last` | `N`"),
    ],
)
def test_a_page_that_was_edited_fails_the_check_and_is_written_again(
    page: str, row: str, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = docs / f"{page}.md"
    before = path.read_text(encoding="utf-8")
    assert before.count(row) == 1
    path.write_text(before.replace(row, row.replace("`3`", "`4`").replace("`N`", "`M`")))
    assert main(["check", page], docs) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"docs/{page}.md: the block '")
    assert line.endswith("' is stale; run `python -m tools.reference write`")
    assert main(["write", page], docs) == 0
    assert main(["check", page], docs) == 0
    assert path.read_text(encoding="utf-8") == before
    assert capsys.readouterr().out.splitlines() == [f"docs/{page}.md written"]


def test_prose_outside_of_the_blocks_may_be_edited(docs: Path) -> None:
    path = docs / "settings-reference.md"
    path.write_text(path.read_text(encoding="utf-8") + "\nMore prose.\n", encoding="utf-8")
    assert main(["check", "settings-reference"], docs) == 0


def test_a_wrong_command_line_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["write", "nothing"]) == 2
    assert main([]) == 2
    assert "python -m tools.reference write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the block 'a' is missing"),
        ("<!-- generated: a -->\n<!-- end -->\n<!-- generated: b -->\n<!-- end -->\n", "block 'b'"),
        ("<!-- generated: a -->\n<!-- end -->\n" * 2, "the block 'a' occurs twice"),
        ("<!-- generated: a -->\n", "not closed"),
    ],
)
def test_a_page_of_another_form_is_an_error(text: str, sentence: str) -> None:
    with pytest.raises(PageError, match=sentence):
        fill(text, {"a": "x"})


def test_a_cell_cannot_break_its_table() -> None:
    assert table(("a",), [["x | y\nz"]]).splitlines()[-1] == r"| x \| y z |"
    assert prose("with --yes, of a*b or `a*b`") == r"with `--yes`, of a\*b or `a*b`"
    assert prose("merge.settle and $HOME, not 'ts_month=2013-*' or a_b/c") == (
        r"`merge.settle` and `$HOME`, not 'ts_month=2013-\*' or a_b/c"
    )


@pytest.mark.long
def test_airflow_is_not_imported_for_the_other_pages() -> None:
    pages = ["check", "settings-reference", "cli"]
    code = f"import sys; from tools.reference.__main__ import main; main({pages})"
    ended = f"{code}; sys.exit('airflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", ended], cwd=REPO, check=False)
    assert done.returncode == 0


# --- settings -------------------------------------------------------------------------------------


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of all fields of the models, apart from how the generator walks them."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        below = re.findall(r"\b([\w.]+)\.(\w+Settings)\b", str(field.annotation))
        yield prefix + key
        if below:
            module, section = below[0]
            yield from leaves(getattr(sys.modules[module], section), f"{prefix}{key}.")


def all_leaves() -> set[str]:
    """Dotted names of all fields of a settings file."""
    below = {*leaves(FleetSettings, "fleet."), *leaves(ErasureSettings, "erasure.")}
    return {*leaves(TableSettings), *below}  # airflow: of a table as well


def test_every_setting_is_listed_once() -> None:
    known = all_leaves() - {"name"}
    sections = {name for name in known if any(each.startswith(f"{name}.") for each in known)}
    optional = {"ttl", "cluster_by", "merge.bloom_filters", "import"}
    optional |= {f"spark.{section_of(each)}" for each in PLATFORMS}
    assert set(SETTINGS) == (known - sections) | optional
    text = (DOCS / "settings-reference.md").read_text(encoding="utf-8")
    assert all(text.count(f"\n| `{name}` |") == 1 for name in SETTINGS)


def test_every_setting_and_section_has_a_meaning() -> None:
    found = [*settings.groups(), *settings.item_groups()]
    assert [each.name for group in found for each in group.settings if not each.meaning] == []
    assert [group.name for group in settings.groups() if not group.meaning] == []


def test_defaults_and_bounds_are_what_the_settings_file_takes() -> None:
    parse = {"size": parse_size, "duration": parse_duration}
    # Sections without which a table does without: their defaults are those of a table with them.
    sections = {"ttl": {"keep": "1d", "column": "ts"}}
    given = {"name": "t", "root": "memory://t", **sections}
    plain = TableSettings.model_validate(given).model_dump()
    plain |= {"fleet": FleetSettings().model_dump(), "erasure": ErasureSettings().model_dump()}
    for name, setting in SETTINGS.items():
        words = parse.get(settings.kind(setting))
        spelled = re.findall(r"`([^`]+)`", settings.default(setting.field))
        if words is None or not spelled or spelled == ["null"]:
            continue
        value: Any = plain
        for key in name.split("."):
            value = value[key]
        assert words(spelled[0]) == value, name
        bounds = [words(each) for each in re.findall("`([^`]+)`", settings.bounds(setting.field))]
        assert bounds == sorted(bounds), name
        assert bounds[0] <= words(spelled[0]) <= (bounds[1:] or [2**63])[0], name


def test_a_section_has_the_types_of_a_settings_file() -> None:
    kinds = {name: settings.kind(each) for name, each in SETTINGS.items()}
    assert kinds["merge.target_size"] == "size"
    assert kinds["deleted_keep"] == "duration"
    assert kinds["sweep.schedule"] == "schedule"
    assert kinds["cleanup.schedule"] == "`fleet` or schedule"
    assert kinds["merge.schedule"] == "`fleet` or schedule"
    assert kinds["fleet.budget"] == "size a day"
    assert kinds["merge.compression_level"] == "integer"
    assert kinds["primary_key"] == "list of columns"
    assert kinds["version"] == "column"
    assert kinds["operations"] == "list of operations"
    assert kinds["merge.bloom_filters"] == "boolean or section"
    assert kinds["locking"] == "one of `fenced`, `pool-only`"


def test_the_properties_of_a_table_are_marked() -> None:
    marks = {name: settings.property_mark(name) for name in SETTINGS}
    named = {name for name, mark in marks.items() if mark and "cluster_by." not in name}
    assert named == {*FIELDS} - {"holds"}  # a person puts a hold, not a settings file
    assert marks["primary_key"] == "refused"
    assert marks["sort_by"] == "automatic"
    assert marks["cleanup.grace"] == marks["cluster_by.method"] == "explicit"


def test_the_example_of_the_page_is_a_settings_file(tmp_path: Path) -> None:
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    example = re.search(r"^    fleet:\n(?:    .*\n|\n)+", text, re.MULTILINE)
    assert example is not None
    path = tmp_path / "tables.yaml"
    path.write_text(re.sub("^    ", "", example[0], flags=re.MULTILINE), encoding="utf-8")
    tables = load_settings(path).tables
    assert tables["customers"].merge.compression_level == 9
    assert tables["flights"].merge.target_size == tables["customers"].merge.target_size


# --- options --------------------------------------------------------------------------------------


def test_every_option_has_a_help_text() -> None:
    assert [f"{o.command} {o.names}" for o in cli.all_options() if not o.meaning] == []


def test_options_of_every_command_are_left_out_of_their_tables() -> None:
    blocks = cli.blocks()
    common = blocks[cli.EVERY]
    assert all(f"| `{name}` |" in common for name in ("TABLE", "--json", "--settings", "--debug"))
    assert not any("| `--json` |" in block for name, block in blocks.items() if name != cli.EVERY)


def test_an_option_has_its_value_default_and_usage() -> None:
    blocks = cli.blocks()
    assert "| `--engine` | `local` or `spark` | `local` |" in blocks["firnline merge"]
    assert "| `--where` | `SQL` | required |" in blocks["firnline delete"]
    assert "| `--last` | `N`, 1 to 100000 | `50` |" in blocks["firnline history"]
    assert "Usage: `firnline append TABLE FILES... [OPTIONS]`" in blocks["firnline append"]
    assert "Usage: `firnline drop TABLE [PARTITION...] [OPTIONS]`" in blocks["firnline drop"]
    assert "of every command" in blocks["firnline pools"]
    assert markdown.code("--all-rows") in blocks["firnline read"]


def test_the_table_of_operations_names_the_dag_of_each_operation() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8").split("\n## ")[0]
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    said = {row[1].split("`")[1]: (row[2].strip("`"), row[3]) for row in rows[2:] if "`" in row[1]}
    dags = {command: dag for command, dag in said.items() if dag[0] != "-" and " " not in dag[0]}
    expected = {f"firnline {each.command}": (each.dag, each.lock or "-") for each in DAGS}
    assert dags == expected
