from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import SettingsError
from firnline.settings.document import expand, parse_yaml, with_defaults
from firnline.settings.files import MAX_BYTES, NAME_IT, read_file


def read_yaml(path: Path) -> dict[Any, Any]:
    return parse_yaml(path, read_file(path, next_step=NAME_IT).raw)


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "tables.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("tables:\n  a: [1\n  b: 2\n", 3, ""),
        ("tables:\n\ta: 1\n", 2, "a tab stands there, and YAML takes spaces"),
        ("tables:\n  a: @b\n", 2, "found character that cannot start any token"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is written twice"),
        ("t:\n  x: {root: 1, root: 2}\n", 2, "'root' is written twice"),
        ("? [a]\n: 1\n", 1, "a key must be a name"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, "use defaults"),
        ("a: !!python/object/apply:os.getcwd []\n", 1, "constructor"),
    ],
)
def test_a_mistake_in_the_yaml_names_file_and_line(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as raised:
        read_yaml(path)
    assert f"{path}, line {line}, column" in str(raised.value)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- 1\n", "text\n", "3"])
def test_a_file_that_is_no_mapping_says_what_to_write(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="defaults and tables"):
        read_yaml(written(tmp_path, text))


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"a: \x01", b"a: \xc3\x28", b"\x00"])
def test_bytes_that_are_no_text_are_one_clear_error(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(SettingsError) as raised:
        read_yaml(written(tmp_path, raw))
    assert "\n" not in str(raised.value)


@given(raw=st.binary(max_size=60))
def test_any_bytes_are_a_mapping_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    with contextlib.suppress(SettingsError):
        assert isinstance(read_yaml(written(tmp_path_factory.getbasetemp(), raw)), dict)


def test_a_missing_file_says_which_variable_names_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.yaml cannot be read.*FIRNLINE_TABLES"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(SettingsError, match="FIRNLINE_TABLES"):
        read_yaml(tmp_path)


def test_a_file_of_many_megabytes_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="larger than 8 MiB"):
        read_yaml(written(tmp_path, b"#" * (MAX_BYTES + 1)))


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{b: " * 100_000, "- " * 100_000])
def test_deep_nesting_does_not_crash_the_reader(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="nested too deeply"):
        read_yaml(written(tmp_path, text))


def test_aliases_of_aliases_stay_small(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 4)]
    value = read_yaml(written(tmp_path, "\n".join(lines)))
    assert value["a3"][0] is value["a3"][9]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("s3://${BUCKET}/t", "s3://lake/t"),
        ("${BUCKET}${BUCKET}", "lakelake"),
        ("${NONE:-file:///tmp/t}", "file:///tmp/t"),
        ("${EMPTY:-x}", "x"),
        ("${NONE:-}", ""),
        ("${BUCKET:-x}", "lake"),
        ("$BUCKET", "$BUCKET"),
    ],
)
def test_variables_stand_for_their_value_or_default(text: str, expanded: str) -> None:
    assert expand(text, {"BUCKET": "lake", "EMPTY": ""}) == expanded


@pytest.mark.parametrize("text", ["${NONE}", "s3://b/${EMPTY}"])
def test_a_variable_that_is_not_set_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"NONE|EMPTY.*is not set"):
        expand(text, {"EMPTY": ""})


@pytest.mark.parametrize("text", ["${", "${A", "${1}", "${A B}", "${A:-${B}}"])
def test_half_a_variable_is_no_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not a variable"):
        expand(text, {"A": "a", "B": "b"})


def test_a_value_that_looks_like_a_variable_is_not_expanded_again() -> None:
    assert expand("${A}", {"A": "${B}", "B": "b"}) == "${B}"


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
tables = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@pytest.mark.long
@given(tables, tables)
def test_a_table_wins_over_the_defaults_everywhere(
    table: dict[str, Any], defaults: dict[str, Any]
) -> None:
    merged = with_defaults(table, defaults)
    assert set(merged) == set(table) | set(defaults)
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(defaults.get(key), dict):
            assert merged[key] == with_defaults(value, defaults[key])
        else:
            assert merged[key] == value


@given(tables)
def test_merging_changes_neither_side(table: dict[str, Any]) -> None:
    defaults: dict[str, Any] = {"a": {"b": 1}}
    before = repr(table)
    with_defaults(table, defaults)["a"] = None
    assert (repr(table), defaults) == (before, {"a": {"b": 1}})


def test_a_free_layout_of_a_table_hides_the_partitions_of_the_defaults() -> None:
    merged = with_defaults({"partition": "d=.*"}, {"partition_by": ["d"], "sort_by": ["a"]})
    assert merged == {"partition": "d=.*", "sort_by": ["a"]}
