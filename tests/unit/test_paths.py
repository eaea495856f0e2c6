"""Keys are built and parsed in one place, and nothing points outside the table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import ForeignPathError, LogCorruptError, UsageError
from firnline.ids import format_uuid7, uuid7_time_ms
from firnline.paths import NULL_VALUE, Root, TablePaths, quote_value, unquote_value

PATHS = TablePaths("lake/flights")
UUID = format_uuid7(1_700_000_000_000, 7)
TIMES = st.integers(0, 10**13 - 1)


@given(st.text())
def test_any_partition_value_survives_the_way_through_a_path(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return  # lone surrogates are no text that a column could hold
    quoted = quote_value(value)
    assert unquote_value(quoted) == value
    assert "/" not in quoted
    assert quoted.isascii()
    assert quoted != NULL_VALUE


@pytest.mark.long
@given(TIMES, st.from_regex(r"[A-Za-z0-9.-]{1,40}", fullmatch=True))
def test_an_append_log_parses_back(t: int, host: str) -> None:
    name = PATHS.parse_log(PATHS.append_log(t, f"{host}-{UUID}"))
    assert (name.t, name.kind, name.seq) == (t, "append", 0)


@given(TIMES, st.integers(1, 10**15))
def test_a_transactions_log_parses_back(t: int, seq: int) -> None:
    name = PATHS.parse_log(PATHS.txn_log(t, seq, UUID))
    assert (name.t, name.kind, name.seq, name.txn) == (t, "transaction", seq, UUID)
    assert PATHS.parse_txn(PATHS.txn(seq)) == seq


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("1700000000000_host.jsonl", "append"),
        ("1700000000000_my_m_host.jsonl", "append"),
        ("1700000000000_m_host.jsonl", "foreign-merge"),
        ("1700000000000_m_00000000000000000007-nouuid.jsonl", "foreign-merge"),
    ],
)
def test_names_of_foreign_clients_are_told_apart(name: str, kind: str) -> None:
    assert PATHS.parse_log(PATHS.log_dir + name).kind == kind


@pytest.mark.parametrize("name", ["x.jsonl", "17_.jsonl", "1700000000000_host.json", "_a.jsonl"])
def test_a_name_that_is_no_log_file_is_refused_by_name(name: str) -> None:
    with pytest.raises(LogCorruptError, match=name.replace(".", r"\.")):
        PATHS.parse_log(PATHS.log_dir + name)


def test_a_writer_name_with_an_underscore_is_refused() -> None:
    with pytest.raises(UsageError, match="my_host"):
        PATHS.append_log(1, "my_host")


@pytest.mark.parametrize(
    "key",
    [
        "lake/other/_data/x.parquet",
        "lake/flights2/_data/x.parquet",
        "lake/flights/_log/x.parquet",
        "lake/flights/_data/../../x.parquet",
        "lake/flights/_data/./x.parquet",
        "lake/flights/_data//x.parquet",
        "lake/flights/_data/a/",
        "lake/flights/_data/",
        "lake/flights/_data/a\nb.parquet",
        "lake/flights/_data/a\x7fb.parquet",
        "/lake/flights/_data/x.parquet",
    ],
)
def test_a_marker_that_points_elsewhere_is_refused(key: str) -> None:
    with pytest.raises(ForeignPathError):
        PATHS.check_part(key)
    raw = b'"' + key.encode("unicode_escape") + b'"'
    good = [f"lake/flights/_data/a/{i}.parquet" for i in range(3)]
    with pytest.raises(ForeignPathError):
        PATHS.check_parts([*good, key], raw)


def test_many_good_keys_pass_at_once() -> None:
    keys = [f"lake/flights/_data/d=2013-01-0{i}/{UUID}.parquet" for i in range(10)]
    PATHS.check_parts(keys, b"".join(k.encode() for k in keys))


@given(st.text(min_size=1, max_size=8), st.text(max_size=8))
def test_checking_many_keys_agrees_with_checking_each(folder: str, name: str) -> None:
    key = f"lake/flights/_data/{folder}/{name}.parquet"
    raw = key.encode("unicode_escape", "surrogatepass")
    try:
        PATHS.check_part(key)
    except ForeignPathError:
        with pytest.raises(ForeignPathError):
            PATHS.check_parts([key], raw)
    else:
        PATHS.check_parts([key], raw)


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://lake/a/b", "lake", "a/b"),
        ("s3://lake/a/b/", "lake", "a/b"),
        ("file:///data/tables/t", "/data/tables", "t"),
        ("file:///t", "/", "t"),
        ("memory://m/t", "m", "t"),
    ],
)
def test_a_root_is_taken_apart(url: str, bucket: str, prefix: str) -> None:
    root = Root.parse(url)
    assert (root.bucket, root.prefix) == (bucket, prefix)


@pytest.mark.parametrize(
    "url", ["flights", "http://x/y", "s3://", "file://rel/t", "s3://b/a//c", "file:///a/../b"]
)
def test_a_wrong_root_is_one_sentence(url: str) -> None:
    with pytest.raises(UsageError, match="; write"):
        Root.parse(url)


def test_parts_of_an_unpartitioned_table_parse() -> None:
    part = PATHS.parse_part(PATHS.data_part("", UUID))
    assert (part.partition, part.name) == ("", f"{UUID}.parquet")
    part = PATHS.parse_part(PATHS.data_part("a=1/b=2", UUID))
    assert (part.partition, part.name) == ("a=1/b=2", f"{UUID}.parquet")


@given(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 80) - 1))
def test_a_uuid7_carries_its_time(now_ms: int, bits: int) -> None:
    assert uuid7_time_ms(format_uuid7(now_ms, bits)) == now_ms


def test_another_uuid_has_no_time() -> None:
    with pytest.raises(ValueError, match="not a UUIDv7"):
        uuid7_time_ms("123e4567-e89b-42d3-a456-426614174000")


@given(TIMES, st.integers(0, 2**74 - 1))
def test_a_file_of_vectors_is_found_by_its_name_in_a_key_and_in_a_reference(t: int, r: int) -> None:
    name = format_uuid7(t, r)
    assert PATHS.parse_vectors(PATHS.vectors(name)) == name
    assert PATHS.parse_vectors(PATHS.vectors_index(name)) == name
    ref = PATHS.vectors_ref(name)
    assert (len(ref), PATHS.vectors_of_ref(ref)) == (len("_delta_vectors") + 20, name)


def test_a_reference_is_spelled_as_in_the_example_of_delta_s_protocol() -> None:
    ref = PATHS.vectors_ref("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
    assert ref == "_delta_vectors^-aqEH.-t@S}K{vb[*k^"


@pytest.mark.parametrize(
    "ref", ["", "_delta_vectors", "ab^-aqEH.-t@S}K{vb[*k^", "_delta_vectors123"]
)
def test_another_reference_to_vectors_is_refused(ref: str) -> None:
    with pytest.raises(ValueError, match="is not a file of firnline's"):
        PATHS.vectors_of_ref(ref)
    assert PATHS.parse_vectors(f"{PATHS.vectors_dir}{UUID}.bin") is None


@pytest.mark.parametrize("source", [False, True])
@pytest.mark.parametrize(
    "url", ["s3://key:hush@b/t", "s3:/key:hush@b/t", "S3://key:hush@b/t", "https://key:hush@b/t"]
)
def test_user_information_before_a_bucket_is_refused_and_not_repeated(
    url: str, source: bool
) -> None:
    with pytest.raises(UsageError, match="holds no credentials") as raised:
        Root.parse(url, source=source)
    assert "hush" not in str(raised.value)


def test_an_at_sign_in_a_name_is_one() -> None:
    assert Root.parse("file:///data/a@b").prefix == "a@b"
    assert Root.parse("s3://b/a@b").prefix == "a@b"
