"""The page of a what-if says what is exact, how good the play is, and what to write down."""

from __future__ import annotations

from typing import Any

from firnline.operations.what_if.pages import page_of
from firnline.pages import Command, Grid

FIGURES = {
    "parts": 40,
    "bytes": 2**30,
    "mean_parts": 52.25,
    "mean_parts_of_yesterday": 3.0,
    "requests_of_a_scan_of_yesterday": 9.5,
    "merges": 700,
    "bytes_read": 2**31,
    "bytes_written": 2**31,
    "write_amplification": 3.0,
    "requests": {"get": 9_000, "put": 2_000, "list": 3_000, "delete": 700},
    "usd_of_maintenance": 0.03,
    "usd_of_scans": 0.0004,
    "usd": 0.034,
}
UNKNOWN = {"mean_parts": None, "usd_of_scans": None, "usd": None}


def data(**changes: Any) -> dict[str, Any]:
    shares = {**dict.fromkeys(FIGURES), "bytes": 0.0123}
    shares |= {f"requests_{kind}": None for kind in ("get", "put", "list", "delete")}
    given: dict[str, Any] = {
        "table": "t",
        "settings": {},
        "start": 1_700_000_000_000,
        "end": 1_700_000_000_000 + 9 * 86_400_000,
        "since": 1_700_500_000_000,
        "arrivals": {
            "parts": 9_000,
            "bytes": 2**30,
            "reconstructed": 0,
            "reconstructed_mean_bytes": 0,
            "cut": False,
            "most_parts": 200_000,
        },
        "merge_ratio": 0.5,
        "merges": "every 1h",
        "merges_what_if": None,
        "scans_a_day": 100,
        "prices": {"put_of_1000": 0.005, "get_of_1000": 0.0004},
        "was": {**FIGURES, **UNKNOWN},
        "as_it_is": FIGURES,
        "what_if": None,
        "difference": shares,
        "suggestion": None,
        "left_out": ["storage", "CPU"],
    }
    return {**given, **changes}


def lines(**changes: Any) -> list[str]:
    return list(page_of(data(**changes)).lines())


def test_figures_stand_side_by_side_with_the_difference_of_the_play() -> None:
    said = lines()
    assert said[0] == "t: 9,000 parts (1.0 GiB) came in the 9d since 2023-11-14 22:13:20Z"
    assert " bytes at the end: what was 1.0 GiB, as it is 1.0 GiB, difference +1.2 %" in said
    assert " parts of all rows, mean: what was -, as it is 52.2" in said
    assert " USD of scans in 30 days: what was -, as it is below 0.001" in said
    assert said[-1] == "Left out: storage; CPU."
    grids = [block for block in page_of(data(what_if=FIGURES)).blocks if isinstance(block, Grid)]
    assert [column.title for column in grids[0].columns][-1] == "what if"


def test_what_is_reconstructed_and_what_was_cut_is_said() -> None:
    arrivals = {**data()["arrivals"], "reconstructed": 70, "reconstructed_mean_bytes": 2_048}
    said = " ".join(lines(arrivals={**arrivals, "cut": True}))
    assert "Arrivals are exact since 2023-11-20 17:06:40Z. 70 parts of before are known" in said
    assert "taken to be of 2.0 KiB, the mean." in said
    assert "the newest 200,000 at most are played" in said
    assert "Each of these parts is in the log" in " ".join(lines())


def tried(usd: float, **changes: str) -> dict[str, Any]:
    return {"settings": {f"merge.{k}": v for k, v in changes.items()}, **FIGURES, "usd": usd}


def suggested(best: Any, *others: Any) -> dict[str, Any]:
    return {"best": best, "next": list(others), "tried": 20, "pruned": 4, "most_requests": 20}


def test_a_suggestion_is_a_piece_of_the_settings_file_and_the_next_best() -> None:
    best, other = tried(1.5, min_inputs="8", target_size="1GiB"), tried(1.75)
    page = page_of(data(suggestion=suggested(best, other)))
    assert page.sentence == (
        "The cheapest with a scan of yesterday at 20 requests or fewer (20 variants played, "
        "4 ruled out by others), for tables.yaml:"
    )
    copied = [block.text for block in page.blocks if isinstance(block, Command)]
    assert copied == ["tables:", "  t:", "    merge:", "      min_inputs: 8",
                      "      target_size: 1GiB"]  # fmt: skip
    grid = [block for block in page.blocks if isinstance(block, Grid)][-1]
    assert [row[:2] for row in grid.rows] == [
        ("merge.min_inputs=8, merge.target_size=1GiB", "1.50"),
        ("in force", "1.75"),
    ]


def test_a_suggestion_may_be_what_is_in_force_or_none() -> None:
    assert page_of(data(suggestion=suggested(tried(1.0)))).sentence.startswith(
        "The settings in force are the cheapest with a scan of yesterday at 20 requests or fewer"
    )
    assert page_of(data(suggestion=suggested(None, tried(1.0)))).sentence.startswith(
        "None keeps a scan of yesterday at 20 requests or fewer (20 variants played"
    )
