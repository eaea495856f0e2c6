from __future__ import annotations

from firnline.airflow.figures import SHOWN, figure_lines, job_lines, shortened, time_text


def test_long_lists_are_cut_and_counted() -> None:
    figures = shortened({"groups": list(range(60)), "few": (1, 2), "n": 3, "why": {"a": 1}})
    assert figures == {
        "groups": list(range(SHOWN)),
        "groups_in_all": 60,
        "few": [1, 2],
        "n": 3,
        "why": {"a": 1},
    }


def test_a_count_of_its_own_is_not_counted_again() -> None:
    figures = shortened({"undecided": list(range(60)), "undecided_count": 5_000})
    assert (len(figures["undecided"]), figures["undecided_count"]) == (SHOWN, 5_000)
    assert "undecided_in_all" not in figures


def test_what_lies_deeper_is_cut_too() -> None:
    nested = shortened({"a": {"b": list(range(60))}, "c": [tuple(range(60))]})
    assert len(nested["a"]["b"]) == len(nested["c"][0]) == SHOWN


def test_a_log_line_for_each_figure_with_its_unit() -> None:
    figures = {
        "parts_in": 4,
        "bytes_in": 2**20,
        "due_ms": 1_700_000_000_000,
        "kept_ms": 5,
        "left_alone": {"is young": 2},
        "nothing": None,
        "none": [],
        "dry_run": True,
    }
    assert figure_lines(figures) == [
        "parts in: 4",
        "bytes in: 1.0 MiB",
        "due ms: 2023-11-14 22:13:20 UTC",
        "kept ms: 5",
        "left alone: is young: 2",
        "dry run: True",
    ]


def test_the_rest_of_a_list_is_a_number() -> None:
    lines = figure_lines(shortened({"partitions": [{"partition": f"d={n}"} for n in range(60)]}))
    assert lines[0] == "partitions: partition d=0"
    assert lines[10:] == ["partitions: and 50 more"]


def test_times_are_in_utc() -> None:
    assert time_text(0) == "1970-01-01 00:00:00"


def test_the_report_of_a_job_is_shown_as_figures_and_any_other_line_as_it_is() -> None:
    report = '{"table": "t", "groups": 2, "bytes_in": 2048, "failures": [], "seconds": 1.5}\n'
    assert job_lines(report) == ["table: t", "groups: 2", "bytes in: 2.0 KiB", "seconds: 1.5"]
    for line in (
        "merge of t, 30 s: 5 of 9 parts, 1 of 2 groups done",
        '{"error": {"message": "no", "seconds": 1}}',
        '{"not json',
        '{"a": 1}',
        "",
    ):
        assert job_lines(line) == [line]
