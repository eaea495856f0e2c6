"""A picture (SVG) of what a command really prints on a terminal, for the README.

    python -m tools.terminal_picture docs/img/demo.svg make demo

Its figures are those of one run: requests depend on the version, and after a merge on how many
transactions it took, so texts beside the picture do not repeat them to the last digit. Draw it on a
quiet machine: its times are measured.

The command runs on a terminal of its own, 100 columns wide; what stands there in the end is drawn,
a page full of pytest's dots apart.
The picture fetches nothing from elsewhere, and this clone's folder is shown as ``~/firnline``.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from firnline.errors import UsageError
from tools.bootstrap import REPO

WIDTH = 100
_SHOWN_AS = "~/firnline"

_THEME = TerminalTheme(
    (13, 17, 23),
    (220, 226, 233),
    [
        *((72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34)),
        *((88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)),
    ],
)

# Rich's own, without the fonts that it fetches from the network and the buttons of a window.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" class="rich-terminal" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas,
  "DejaVu Sans Mono", monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
_BUTTONS = re.compile(r'\s*<g transform="translate\(26,22\)">.*?</g>', re.DOTALL)
_TEXT = re.compile(
    r'<text class="([^"]+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)" ([^>]*)>([^<]*)</text>'
)
_CELL = re.compile(r"\S+(?:\s\S+)*")
"""Text up to two blanks in a row."""
_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)|\x1b[()].|\x1b.")
_DOTS = re.compile(r"[.sxX]{40,} *\[ *\d+%\]")


def record(command: Sequence[str]) -> tuple[str, int]:
    """Run a command on a terminal; all it wrote, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    process = subprocess.Popen(
        command, cwd=REPO, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    read = bytearray()
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:  # how Linux says that nobody writes any more
            break
        if not data:
            break
        read += data
    os.close(ours)
    return read.decode("utf-8", errors="replace"), process.wait()


def final_lines(written: str) -> list[str]:
    """The lines that stay on the terminal, colours included, once progress is wiped off."""
    lines, row, fresh = [""], 0, False
    for match in _SEQUENCE.finditer(written):
        number, action, control, text = match.groups()
        if action == "A":
            row = max(0, row - int(number or 1))
        elif action == "K" and number == "2":
            lines[row] = ""
        elif control == "\n":
            row, fresh = row + 1, False
            lines += [""] * (row + 1 - len(lines))
        elif control == "\r":
            fresh = True
        elif text or action == "m":
            # A program that returns to the start of a line writes the whole line again.
            lines[row] = match.group() if fresh else lines[row] + match.group()
            fresh = False
    return lines


def without_dots(lines: Sequence[str]) -> list[str]:
    """Of several lines of pytest's dots in a row only the last, which says 100 %, and ``...``."""
    kept: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if not (_is_dots(line) and _is_dots(following)):
            kept.append(line)
        elif not kept or kept[-1] != "...":
            kept.append("...")
    return kept


def _is_dots(line: str) -> bool:
    return _DOTS.fullmatch(Text.from_ansi(line).plain.strip()) is not None


def draw(command: Sequence[str], written: str) -> str:
    """The SVG.

    Raises:
        UsageError: something of this machine is in it.
    """
    shown = written.replace(str(REPO), _SHOWN_AS)
    for private in (str(Path.home()), str(REPO.parent), socket.gethostname()):
        if len(private) > 3 and private in shown:
            raise UsageError(
                f"the output names {private}, which is of this machine",
                next_step="make the command name it otherwise",
            )
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), (" ".join(command), "bold")))
    lines = without_dots(final_lines(shown))
    while lines and not Text.from_ansi(lines[-1]).plain.strip():
        lines.pop()
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    console.print()  # else the edge cuts what hangs below the last line
    picture = console.export_svg(title="", theme=_THEME, code_format=_FORMAT, unique_id="t")
    return in_cells(_BUTTONS.sub("", picture))


def in_cells(picture: str) -> str:
    """The SVG with a place of its own for each cell of a line.

    A renderer that has none of the fonts and does not know ``textLength`` would shift all that
    stands behind a gap, since its blanks have another width than the characters.
    """
    return _TEXT.sub(_cells, picture)


def _cells(found: re.Match[str]) -> str:
    style, left, top, length, rest, escaped = found.groups()
    text = unescape(escaped)
    wide = float(length) / max(len(text), 1)
    cells = []
    for cell in _CELL.finditer(text):
        place = f'x="{float(left) + cell.start() * wide:.6g}" y="{top}"'
        size = f'textLength="{len(cell[0]) * wide:.6g}"'
        inner = escape(cell[0]).replace("\xa0", "&#160;")
        cells.append(f'<text class="{style}" {place} {size} {rest}>{inner}</text>')
    return "".join(cells)


def main(arguments: list[str]) -> int:
    """The command's exit code; the picture is written only after success."""
    if len(arguments) < 2:
        sys.stderr.write((__doc__ or "") + "\n")
        return 2
    path, command = Path(arguments[0]), arguments[1:]
    written, code = record(command)
    if code != 0:
        sys.stderr.write(written)
        return code
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw(command, written), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
