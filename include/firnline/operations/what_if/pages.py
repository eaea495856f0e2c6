"""The page of a what-if: figures side by side, how good the play is, and a suggestion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from firnline.operations.inspect.merging import DAYS
from firnline.operations.what_if.suggest import snippet
from firnline.pages import Column, Page, number
from firnline.shown import when
from firnline.units import about_duration, about_size, counted

_Data = Mapping[str, Any]


def _mean(value: float) -> str:
    return f"{value:,.1f}"


def _usd(value: float) -> str:
    if 0 < value < 0.001:
        return "below 0.001"
    return f"{value:,.3f}" if 0 < value < 1 else f"{value:,.2f}"


_ROWS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("parts at the end", "parts", number),
    ("bytes at the end", "bytes", about_size),
    ("parts of all rows, mean", "mean_parts", _mean),
    ("parts of yesterday, mean", "mean_parts_of_yesterday", _mean),
    ("requests of a scan of yesterday", "requests_of_a_scan_of_yesterday", _mean),
    ("merges", "merges", number),
    ("bytes read by merges", "bytes_read", about_size),
    ("bytes written by merges", "bytes_written", about_size),
    ("write amplification", "write_amplification", _mean),
)
_REQUESTS = ("get", "put", "list", "delete")
_MONEY = (
    (f"USD of maintenance in {DAYS} days", "usd_of_maintenance"),
    (f"USD of scans in {DAYS} days", "usd_of_scans"),
    (f"USD of both in {DAYS} days", "usd"),
)


def page_of(data: _Data) -> Page:
    """Return the page of ``WhatIf.to_json``."""
    page = Page()
    page.line(_played(data))
    for sentence in _schedules(data):
        page.line(sentence)
    page.line()
    columns = [Column(""), Column("what was", number=True), Column("as it is", number=True)]
    columns += [Column("difference", number=True, dispensable=1)]
    if data["what_if"] is not None:
        columns.append(Column("what if", number=True))
    page.table(columns, list(_rows(data)))
    page.line()
    for sentence in _sentences(data):
        page.line(sentence)
    if data["suggestion"] is not None:
        page.line()
        _suggest(page, data)
    return page


def _played(data: _Data) -> str:
    came = data["arrivals"]
    length = about_duration(data["end"] - data["start"])
    return (
        f"{data['table']}: {counted(came['parts'], 'part')} ({about_size(came['bytes'])}) came in "
        f"the {length} since {when(data['start'])}"
    )


def _schedules(data: _Data) -> Iterator[str]:
    yield f"as it is: the settings in force; merges {data['merges']}"
    if data["settings"]:
        changes = ", ".join(f"{name}={value}" for name, value in data["settings"].items())
        yield f"what if: {changes}; merges {data['merges_what_if']}"


def _rows(data: _Data) -> Iterator[list[str]]:
    figures = [data[name] for name in ("was", "as_it_is", "what_if") if data[name] is not None]
    shares = data["difference"]
    for title, key, text in _ROWS:
        yield [title, *_cells([each[key] for each in figures], text, shares.get(key))]
    for kind in _REQUESTS:
        counts = [each["requests"][kind] for each in figures]
        yield [
            f"{kind.upper()} of maintenance",
            *_cells(counts, number, shares[f"requests_{kind}"]),
        ]
    for title, key in _MONEY:
        yield [title, *_cells([each[key] for each in figures], _usd, shares.get(key))]


def _cells(values: Sequence[Any], text: Callable[[Any], str], share: float | None) -> list[str]:
    cells = ["-" if value is None else text(value) for value in values]
    return [*cells[:2], "" if share is None else f"{100 * share:+.1f} %", *cells[2:]]


def _sentences(data: _Data) -> Iterator[str]:
    came, prices = data["arrivals"], data["prices"]
    if came["reconstructed"]:
        yield (
            f"Arrivals are exact since {when(data['since'])}. "
            f"{counted(came['reconstructed'], 'part')} of before are known by what merges have "
            f"made of them, and taken to be of {about_size(came['reconstructed_mean_bytes'])}, the "
            "mean."
        )
    else:
        yield "Each of these parts is in the log, with its size and time."
    if came["cut"]:
        yield (
            f"There were more: the newest {came['most_parts']:,} at most are played, and the time "
            "is as short as they make it (--most-parts)."
        )
    yield (
        f"Merges of this table have written {data['merge_ratio']:.2f} bytes for each byte of a "
        "part that was never merged, and so do those of the play."
    )
    yield (
        "The difference is that of the play from what was: what a play of other settings may be "
        "wrong by, too."
    )
    yield (
        f"Scans: {data['scans_a_day']:g} a day, each of yesterday. Prices: "
        f"{prices['put_of_1000']:g} USD for 1,000 PUT or LIST, {prices['get_of_1000']:g} for "
        "1,000 GET."
    )
    yield f"Left out: {'; '.join(data['left_out'])}."


def _suggest(page: Page, data: _Data) -> None:
    found, name = data["suggestion"], data["table"]
    limit = f"a scan of yesterday at {counted(found['most_requests'], 'request')} or fewer"
    tried = f"{counted(found['tried'], 'variant')} played, {found['pruned']} ruled out by others"
    best = found["best"]
    if best is None:
        page.conclusion(f"None keeps {limit} ({tried}). These come nearest to it:")
    elif not best["settings"]:
        page.conclusion(f"The settings in force are the cheapest with {limit} ({tried}).")
    else:
        page.conclusion(f"The cheapest with {limit} ({tried}), for tables.yaml:")
        page.line()
        for line in snippet(name, best["settings"]):
            page.command(line)
    page.line()
    columns = [
        Column("settings", wrap=True),
        *(Column(title, number=True) for title in ("USD", "maintenance", "scans", "scan sends")),
        Column("amplification", number=True, dispensable=1),
    ]
    page.table(columns, [_variant(each) for each in filter(None, (best, *found["next"]))])


def _variant(tried: _Data) -> list[str]:
    changes = ", ".join(f"{name}={value}" for name, value in tried["settings"].items())
    money = (tried[key] for key in ("usd", "usd_of_maintenance", "usd_of_scans"))
    scan, amplification = tried["requests_of_a_scan_of_yesterday"], tried["write_amplification"]
    return [
        changes or "in force",
        *("-" if each is None else _usd(each) for each in money),
        *("-" if each is None else _mean(each) for each in (scan, amplification)),
    ]
