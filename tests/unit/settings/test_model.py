from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from firnline.settings.launchers import SparkSettings
from firnline.settings.model import TableSettings
from firnline.settings.notifiers import AlertSettings
from firnline.settings.sections import (
    AppenderSettings,
    AppendSettings,
    BloomFilterSettings,
    CheckpointSettings,
    CleanupSettings,
    MergeSettings,
    RewriteSettings,
    SweepSettings,
    TtlSettings,
    VerifySettings,
)
from tests.support.tables import mistakes, one


def test_sizes_durations_and_fields_are_read(tmp_path: Path) -> None:
    table = one(
        tmp_path,
        "partition_by: [carrier, month(ts), 'bucket(16, user)'], sort_by: [carrier, ts desc], "
        "primary_key: [id], version: v, merge: {target_size: 1GiB, settle: 30m, schedule: null}, "
        "ttl: {keep: 90d, column: ts}, spark: {conf: {spark.speculation: true, spark.b: 4}}",
    )
    assert [str(field) for field in table.partition_by] == [
        "carrier",
        "month(ts)",
        "bucket(16, user)",
    ]
    assert [str(field) for field in table.sort_by] == ["carrier", "ts desc"]
    assert (table.merge.target_size, table.merge.settle) == (2**30, 30 * 60_000)
    assert table.merge.schedule is None
    assert table.ttl is not None
    assert table.ttl.keep == 90 * 86_400_000
    assert table.spark.conf == {"spark.speculation": "true", "spark.b": "4"}


def test_settings_written_as_json_are_the_same_settings_again(tmp_path: Path) -> None:
    table = one(tmp_path, "partition_by: [month(ts)], sort_by: [a desc], merge: {settle: 90s}")
    text = table.model_dump_json()
    assert '"90s"' in text
    assert TableSettings.model_validate_json(text) == table


def test_clusters_are_a_list_of_columns_or_a_mapping(tmp_path: Path) -> None:
    short = one(tmp_path, "cluster_by: [a, b]").cluster_by
    long = one(tmp_path, "cluster_by: {columns: [a, b], method: range}").cluster_by
    assert short is not None
    assert short == long
    assert short.run_bytes(512 * 2**20) == 4 * 2**30
    other = one(tmp_path, "cluster_by: {columns: [a, b], method: zorder, run_size: 9GiB}")
    assert other.cluster_by is not None
    assert other.cluster_by.run_bytes(512 * 2**20) == 9 * 2**30
    assert other.cluster_by.mark != short.mark
    assert other.statistics_columns == ("a", "b")
    assert TableSettings.model_validate_json(other.model_dump_json()) == other


def test_bloom_filters_are_a_switch_or_a_mapping(tmp_path: Path) -> None:
    default = one(tmp_path, "sort_by: [a]").merge.bloom_filters
    assert default == one(tmp_path, "merge: {bloom_filters: true}").merge.bloom_filters
    assert default == BloomFilterSettings(false_positives=0.01, max_distinct=None)
    for none in ("false", "null"):
        table = one(tmp_path, f"merge: {{bloom_filters: {none}}}")
        assert table.merge.bloom_filters is None
        assert TableSettings.model_validate_json(table.model_dump_json()) == table
    table = one(
        tmp_path,
        "merge: {row_group_rows: 100000, "
        "bloom_filters: {false_positives: 0.001, max_distinct: 20000}}",
    )
    assert table.merge.bloom_filters == BloomFilterSettings(
        false_positives=0.001, max_distinct=20_000
    )
    assert TableSettings.model_validate_json(table.model_dump_json()) == table


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        one(tmp_path, "sort_by: [a]").root = "s3://b/other"


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "path", "allowed"),
    [
        ("merge: {target_size: 3}", "merge.target_size", "between 1MiB and 64GiB"),
        ("merge: {target_size: 5 apples}", "merge.target_size", "write bytes as 512MiB"),
        ("merge: {target_sise: 1GiB}", "merge.target_sise", "did you mean target_size?"),
        ("merge: {min_inputs: 1}", "merge.min_inputs", "greater than or equal to 2, not 1"),
        ("merge: {min_inputs: many}", "merge.min_inputs", "valid integer"),
        ("merge: {kernel_memory: 127MiB}", "merge.kernel_memory", "at least 128MiB"),
        ("merge: {order: newest}", "merge.order", "'fragmented', 'recent' or 'oldest'"),
        ("merge: {schedule: 61 * * * *}", "merge.schedule", "numbers from 0 to 59"),
        ("merge: {max_bytes_per_run: 2MiB}", "merge", "below target_size"),
        ("merge: {max_parts_per_group: 2}", "merge", "set at least 4"),
        ("merge: 3", "merge", "must be a mapping, not 3"),
        ("statistics: a", "statistics", "must be a list, not 'a'; write statistics: [a]"),
        ("ttl: 90d", "ttl", "must be a mapping, not '90d'; write ttl: {keep: 90d}"),
        ("partition_by: day(ts)", "partition_by", "; write partition_by: [day(ts)]"),
        ("partition_by: {a: day}", "partition_by", "must be a list"),
        ("spark: {conf: [a]}", "spark.conf", "must be a mapping"),
        ("commit_ttl: 7d", "commit_ttl", "between 1m and 1d"),
        ("orphan_grace: 23h", "orphan_grace", "between 24h and 365d"),
        ("orphan_grace: 24h, append: {ttl: 24h}", "t", "longer than append.ttl"),
        ("cleanup: {grace: 0}", "cleanup.grace", "between 1s"),
        ("partition_by: [week(ts)]", "partition_by[0]", "identity, year, month, day, hour, bucket"),
        ("partition_by: [ts_day, day(ts)]", "t", "names 'ts_day' twice"),
        ("partition_by: [a], partition: a=.*", "t", "exclude each other"),
        ("mirror: [delta], primary_key: [a]", "t", "mirror and primary_key exclude each other"),
        (
            "mirror: [{delta: {deletes: vectors}}, {iceberg: {name: n.t}}], deletes: lazy",
            "t",
            "an Iceberg mirror and deletes: lazy exclude each other",
        ),
        (
            "mirror: [delta], deletes: lazy",
            "t",
            "only with deletion vectors",
        ),
        ("mirror: [delta, delta]", "t", "mirror names 'delta' twice"),
        ("partition: '('", "t", "is not a regular expression"),
        ("sort_by: [a, b, A desc]", "t", "names 'A' twice"),
        ("sort_by: [a, ts dsc]", "sort_by[1]", "write 'ts desc' or 'ts asc'"),
        ("sort_by: [yes]", "sort_by[0]", "put it in quotes"),
        ("cluster_by: []", "cluster_by.columns", "at least 1 item"),
        ("cluster_by: [a, A]", "t", "cluster_by names 'A' twice"),
        ("cluster_by: [a], primary_key: [a]", "t", "exclude each other"),
        ("cluster_by: {columns: [a], method: zorder}", "cluster_by", "at least 2 columns"),
        ("cluster_by: {columns: [a, b, c, d, e], method: zorder}", "cluster_by", "at most 4"),
        ("cluster_by: {columns: [a], method: hilbert}", "cluster_by.method", "'zorder' or 'hash'"),
        ("cluster_by: {columns: [a], metod: hash}", "cluster_by.metod", "did you mean method?"),
        ("cluster_by: [a], merge: {max_bytes_per_run: 1GiB}", "t", "below the run_size"),
        ("merge: {bloom_filters: 3}", "merge.bloom_filters", "must be true, false or a mapping"),
        ("merge: {bloom_filters: no filters}", "merge.bloom_filters", "must be true, false or"),
        (
            "merge: {bloom_filters: {false_positives: 0}}",
            "merge.bloom_filters.false_positives",
            "greater than or equal to 0.00001, not 0",
        ),
        (
            "merge: {bloom_filters: {false_positives: 1}}",
            "merge.bloom_filters.false_positives",
            "less than or equal to 0.5",
        ),
        (
            "merge: {bloom_filters: {max_distict: 9}}",
            "merge.bloom_filters.max_distict",
            "did you mean max_distinct?",
        ),
        (
            "merge: {bloom_filters: {max_distinct: 134217729}}",
            "merge.bloom_filters.max_distinct",
            "less than or equal to 134217728",
        ),
        (
            "merge: {bloom_filters: {max_distinct: 209714}}",
            "merge",
            "below a fifth of row_group_rows (209715)",
        ),
        ("primary_key: [id, ID]", "t", "names 'ID' twice"),
        ("primary_key: [yes]", "primary_key[0]", "put it in quotes"),
        ("version: v", "t", "needs a primary_key"),
        ("version: id, primary_key: [id]", "t", "name another column"),
        ("locking: none", "locking", "'fenced' or 'pool-only'"),
        ("merge: {slots: 0}", "merge.slots", "greater than or equal to 1"),
        ("merge: {slots: 2}", "t", "one of them commit it; set merge.slots to 1"),
        (
            "merge: {slots: 2}, partition_by: [d], locking: pool-only",
            "t",
            "keeps two merges from losing each other's work; set merge.slots to 1",
        ),
        ("ttl: {keep: 3d}", "t", "set ttl.partition or ttl.column"),
        ("ttl: {keep: 3d, partition: '(?P<day>.*)', column: ts}", "ttl", "keep one"),
        (
            "primary_key: [id], ttl: {keep: 3d, column: ts, rows: true}",
            "t",
            "goes by a column of it",
        ),
        ("ttl: {keep: 3d, column: ts, time_zone: Berlin}", "ttl", "'Berlin' is not an IANA"),
        ("rewrite: {max_removed_fraction: 2}", "rewrite.max_removed_fraction", "1"),
        ("rewrite: {max_removed_fraction: yes}", "rewrite.max_removed_fraction", "a number is"),
        ("ttl: {keep: 9d, max_removed_fraction: true}", "ttl.max_removed_fraction", "yes is none"),
        ("merge: {min_inputs: on}", "merge.min_inputs", "a number is wanted, and yes is none"),
        ("operations: [merge, vacuum]", "operations[1]", "tombstone_cleanup"),
        ("alerts: {notifier: 'rm -rf'}", "alerts.notifier", "'rm -rf' is not the dotted path"),
        ("alerts: {notifier: slack}", "alerts.notifier", "write module.name, such as airflow."),
        ("partition_by: [day ts]", "partition_by[0]", "write day(ts); a column of this very name"),
        ("partition_by: ['Hour: ts']", "partition_by[0]", "write hour(ts)"),
        ("partition_by: [bucket 16 id]", "partition_by[0]", 'write "bucket(16, column)"'),
        ("statistics: [yes]", "statistics[0]", "YAML reads this as True"),
        ("approvers: []", "t", "approvers is empty, so nobody could approve anything"),
        ("approvers: ['']", "approvers[0]", "at least 1"),
        ("approvers: [ana, bo, ana]", "t", "approvers names a user twice"),
        ("ttl: {keep: 3d, partition: 'd=(.*)'}", "ttl", "no group named year"),
        ("ttl: {keep: 3d, partition: 'd=('}", "ttl", "is not a regular expression"),
        ("ttl: {keep: 3d, partition: '(?P<day>(a+)+)b'}", "ttl", "may take very long"),
        ("partition: '([a-z]+)*=x'", "t", "may take very long"),
        ("ttl: {column: ts}", "ttl.keep", "is missing"),
        ("spark: {conf: {executor.memory: 1g}}", "spark", "it must begin with 'spark.'"),
        ("spark: {conf: {spark.hadoop.fs.s3a.secret.key: x}}", "spark", "looks like a credential"),
        ("connection_id: no", "connection_id", "put it in quotes"),
        ("name: x", "name", "is the key itself"),
        ("rot: s3://b/x", "rot", "did you mean root?"),
    ],
)
def test_a_mistake_names_its_field_and_what_is_allowed(
    tmp_path: Path, settings: str, path: str, allowed: str
) -> None:
    text = f"tables:\n  t: {{root: 's3://b/t', {settings}}}\n"
    field = "tables.t" if path == "t" else f"tables.t.{path}"
    said = mistakes(tmp_path, text)
    assert f"{tmp_path}/tables.yaml: {field}: " in said
    assert allowed in said
    assert "\n" not in said


def test_no_setting_of_a_user_is_answered_with_a_regular_expression() -> None:
    """A message of pydantic's shows it; a validator of our own says what to write."""
    shown = [
        (model.__name__, name)
        for model in of_sections(TableSettings)
        for name, field in model.model_fields.items()
        if any(getattr(each, "pattern", None) for each in field.metadata)
    ]
    # The name is the key of the section, which is looked at before.
    assert shown == [("TableSettings", "name")]


def of_sections(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the model of a section and those of the sections in it."""
    yield model
    for field in model.model_fields.values():
        for each in (field.annotation, *get_args(field.annotation)):
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from of_sections(each)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("yes", "tables.True: YAML reads this name (yes, on or true) as a boolean; put it in"),
        ("off", "tables.False: YAML reads this name (no, off or false) as a boolean; put it in"),
        ("7", "tables.7: YAML reads this name as a number; put it in quotes"),
        ("1.5", "tables.1.5: YAML reads this name as a number; put it in quotes"),
        ("2026-01-01", "tables.2026-01-01: YAML reads this name as a date; put it in quotes"),
        ("null", "tables.None: YAML reads this name as a null; put it in quotes"),
        ("a b", "tables.a b: is not a table name; use letters"),
    ],
)
def test_a_name_that_yaml_reads_as_something_else_is_put_in_quotes(
    tmp_path: Path, name: str, said: str
) -> None:
    assert said in mistakes(tmp_path, f"tables:\n  {name}: {{root: 's3://b/t'}}\n")


def test_a_setting_that_yaml_reads_as_a_boolean_is_no_riddle(tmp_path: Path) -> None:
    text = "tables:\n  t: {root: 's3://b/t', on: 1}\n"
    assert "YAML reads this as True; put it in quotes" in mistakes(tmp_path, text)


@pytest.mark.parametrize(
    "root",
    [
        "flights",
        "/data/flights",
        "http://host/x",
        "s3://",
        "s3://bucket",
        "s3://bucket//x",
        "s3://bucket/a/../b",
        "s3://bucket/x?y=1",
        "s3://bucket/x#y",
        "file://relative/path",
        "file:relative",
        "file:///",
        "s3:///x",
    ],
)
def test_a_root_that_cannot_be_one_is_refused(tmp_path: Path, root: str) -> None:
    assert "tables.t.root: " in mistakes(tmp_path, f"tables: {{t: {{root: '{root}'}}}}")


def test_credentials_in_a_root_are_refused_and_not_repeated(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "tables: {t: {root: 's3://AKIA123:hush@bucket/t'}}")
    assert "no credentials" in said
    assert "hush" not in said
    assert "AKIA123" not in said


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.lake.acct.blob.core.windows.net",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "spark.executorEnv.DB_PWD",
        "spark.yarn.appMasterEnv.X_APIKEY",
    ],
)
def test_credentials_of_any_cloud_in_spark_conf_are_refused_and_not_repeated(
    tmp_path: Path, name: str
) -> None:
    text = f"tables: {{t: {{root: 's3://b/t', spark: {{conf: {{{name}: hush}}}}}}}}"
    said = mistakes(tmp_path, text)
    assert f"{name!r} looks like a credential" in said
    assert "hush" not in said


@pytest.mark.parametrize(
    "model",
    [
        TableSettings,
        AppendSettings,
        AppenderSettings,
        MergeSettings,
        BloomFilterSettings,
        CleanupSettings,
        CheckpointSettings,
        TtlSettings,
        SparkSettings,
        RewriteSettings,
        SweepSettings,
        VerifySettings,
        AlertSettings,
    ],
)
def test_every_setting_is_documented(model: type[BaseModel]) -> None:
    sections = {
        *("append", "merge", "cleanup", "checkpoint", "spark"),
        *("rewrite", "sweep", "verify", "alerts"),
    }
    for name, field in model.model_fields.items():
        assert field.description or name in sections, f"{model.__name__}.{name}"
