"""Draws a timeline with characters: bars for parts, hatching for delete records, and a scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firnline.types.calendar import civil_from_days, days_from_civil

if TYPE_CHECKING:
    from rich.text import Text

    from firnline.operations.inspect.axis import Axis
    from firnline.operations.inspect.timeline import Layer, Record, Timeline

_SECOND, _DAY = 1_000_000_000, 86_400_000_000_000
_STEPS = [
    n * unit
    for unit, counts in (
        (_SECOND // 1000, (1, 10, 100)),
        (_SECOND, (1, 5, 15, 30)),
        (60 * _SECOND, (1, 5, 15, 30)),
        (3600 * _SECOND, (1, 3, 6, 12)),
        (_DAY, (1, 2, 7, 14)),
    )
    for n in counts
]
"""Steps between two marks of a time scale, in nanoseconds; larger ones are months and years."""
_MONTHS = (1, 3, 6, 12, 24, 60, 120, 600, 1200, 6000, 12_000)
LABEL_CELLS = 13
"""Width of one label of the scale, in cells."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters of the drawing."""

    shades: tuple[str, str, str]
    """Visible, partly hidden, hidden."""
    ends: tuple[str, str, str]
    """The last cell of a bar, in the same order: it separates adjacent bars."""
    hatch: str
    sparse: str
    levels: str
    """From low to high."""
    frame: str
    corner: str
    line: str
    mark: str


HATCH = "\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}"
UNICODE = Glyphs(
    ("█", "▓", "░"), ("▌", "▒", "░"), HATCH, f"{HATCH} ", "▁▂▃▄▅▆▇█", "│", "└", "─", "┴"
)
ASCII = Glyphs(("#", "+", "."), ("]", "]", "]"), "/", "/ ", ".:-=+*%#", "|", "+", "-", "+")
STYLES = ("cyan", "yellow", "bright_black")
HATCHED = "red"


def picture(timeline: Timeline, glyphs: Glyphs) -> list[Text]:
    """Return the lines of the picture, newest layer on top."""
    from rich.text import Text

    labels = [label(layer) for layer in timeline.layers]
    width = max(len(text) for text in [*labels, "visible rows"])
    lines: list[Text] = []
    for layer, text in zip(timeline.layers, labels, strict=True):
        for number, lane in enumerate(_lanes(layer, timeline.axis.cells, glyphs)):
            head = Text(f"{text if number == 0 else '':>{width}} ", style="bold")
            lines.append(head + Text(f"{glyphs.frame} ", style="bright_black") + lane)
    empty = Text(" " * (width + 1))
    lines += [empty + row for row in _rule(timeline.axis, glyphs)]
    return lines + _levels(timeline, glyphs, width)


def label(layer: Layer) -> str:
    """Return ``3  replace`` for a record, ``3  2 parts`` for parts based on transaction 3."""
    span = str(layer.newest) if layer.newest == layer.oldest else f"{layer.oldest}-{layer.newest}"
    if layer.records:
        ops = sorted({record.op for record in layer.records})
        count = len(layer.records)
        return f"{span}  {ops[0]}" if count == 1 else f"{span}  {count:,} records"
    return f"{span}  {layer.parts:,} part{'' if layer.parts == 1 else 's'}"


def _lanes(layer: Layer, cells: int, glyphs: Glyphs) -> list[Text]:
    from rich.text import Text

    if layer.records:
        return [_hatched(layer.records, cells, glyphs)]
    if layer.density:
        most = max(layer.density)
        return [Text(_spark(layer.density, most, glyphs), style=STYLES[0])]
    lanes: list[Text] = []
    for bars in layer.lanes:
        lane = Text(" " * 0)
        at = 0
        for bar in bars:
            lane.append(" " * (bar.first - at))
            for place, shade in enumerate(bar.shades):
                is_end = place == len(bar.shades) - 1
                glyph = (glyphs.ends if is_end else glyphs.shades)[shade]
                lane.append(glyph, style=STYLES[shade])
            at = bar.last + 1
        lanes.append(lane)
    return lanes


def _hatched(records: Sequence[Record], cells: int, glyphs: Glyphs) -> Text:
    from rich.text import Text

    row = [" "] * cells
    for record in sorted(records, key=lambda record: record.whole):
        pattern = glyphs.hatch if record.whole else glyphs.sparse
        for cell in range(record.first, record.last + 1):
            row[cell] = pattern[(cell - record.first) % len(pattern)]
    return Text("".join(row).rstrip(), style=HATCHED)


def _spark(counts: Sequence[float], most: float, glyphs: Glyphs) -> str:
    levels = glyphs.levels
    return "".join(
        levels[min(len(levels), max(1, -int(-count * len(levels) // most))) - 1] if count else " "
        for count in counts
    )


def _levels(timeline: Timeline, glyphs: Glyphs, width: int) -> list[Text]:
    from rich.text import Text

    most = max(timeline.visible, default=0)
    if not most:
        return []
    # Blanks instead of a rule: the row is below the scale and aligned with its cells.
    row = Text(f"{'visible rows':>{width}}   ", style="bold")
    row.append(_spark(timeline.visible, most, glyphs), style="green")
    return [row]


def _rule(axis: Axis, glyphs: Glyphs) -> list[Text]:
    """Return the scale: a line with marks, and their labels."""
    from rich.text import Text

    line = [glyphs.line] * (axis.cells + 1)
    names = [" "] * (axis.cells + 1)
    free = 0
    for number, text in marks(axis):
        cell = axis.cell(number) + 1
        if not 0 < cell <= axis.cells:
            continue
        line[cell] = glyphs.mark
        begin = min(cell, axis.cells + 1 - len(text))  # the last label ends with the scale
        if begin >= free:
            names[begin : begin + len(text)] = text
            free = begin + len(text) + 1
    return [
        Text(glyphs.corner + "".join(line), style="bright_black"),
        Text(" " + "".join(names).rstrip()),
    ]


def marks(axis: Axis) -> list[tuple[Any, str]]:
    """Return round values of an axis with their labels, at most one per ``LABEL_CELLS`` cells."""
    most = max(1, axis.cells // LABEL_CELLS)
    low, high = axis.low, axis.high
    if low == high:
        return [(low, axis.text(low))]
    if not axis.is_time:
        return _round_numbers(float(low), float(high), most)
    begin, end = int(low), int(high)
    step = next((step for step in _STEPS if (end - begin) // step <= most), None)
    if step is None:
        return _months(begin, end, most)
    first = -(-begin // step) * step
    times = range(first, end + 1, step)
    return [
        (t, _time(t, step, new=i == 0 or (step < _DAY and not t % _DAY)))
        for i, t in enumerate(times)
    ]


def _time(t: int, step: int, *, new: bool) -> str:
    days, rest = divmod(t, _DAY)
    year, month, day = civil_from_days(days)
    if step >= _DAY:
        return f"{year:04d}-{month:02d}-{day:02d}" if new else f"{month:02d}-{day:02d}"
    seconds = rest // _SECOND
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if step < 60 * _SECOND:
        clock += f":{seconds % 60:02d}"
    if step < _SECOND:
        clock += f".{rest % _SECOND // 1_000_000:03d}"
    return f"{month:02d}-{day:02d} {clock}" if new and step >= 60 * _SECOND else clock


def _months(begin: int, end: int, most: int) -> list[tuple[Any, str]]:
    first, last = (_month_of(t) for t in (begin, end))
    step = next((n for n in _MONTHS if (last - first) // n <= most), _MONTHS[-1])
    months = range(-(-first // step) * step, last + 1, step)
    return [
        (
            days_from_civil(month // 12, month % 12 + 1, 1) * _DAY,
            f"{month // 12:04d}" if step % 12 == 0 else f"{month // 12:04d}-{month % 12 + 1:02d}",
        )
        for month in months
    ]


def _month_of(t: int) -> int:
    year, month, _ = civil_from_days(t // _DAY)
    return year * 12 + month - 1


def _round_numbers(low: float, high: float, most: int) -> list[tuple[Any, str]]:
    raw = (high - low) / most
    ten = 10.0 ** _exponent(raw)
    step = next((n * ten for n in (1, 2, 5, 10) if n * ten >= raw), 10 * ten)
    first = -int(-low // step)
    last = int(high // step)
    return [(n * step, f"{n * step:,.10g}") for n in range(first, last + 1)]


def _exponent(value: float) -> int:
    """Return the exponent of the largest power of ten that is not above a positive number."""
    return int(f"{value:e}".partition("e")[2])
