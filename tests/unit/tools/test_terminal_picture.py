from __future__ import annotations

import socket
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from firnline.errors import UsageError
from tools.bootstrap import REPO
from tools.terminal_picture import draw, final_lines, in_cells, main, record, without_dots


def test_progress_that_was_wiped_off_is_not_in_the_picture() -> None:
    wiped = "\x1b[?25l\r\x1b[2K 3 of 7\r\x1b[2K 7 of 7\r\n\x1b[1A\x1b[2K"
    assert final_lines(f"first\r\n{wiped}\x1b[1mdone\x1b[0m\r\n") == [
        "first",
        "\x1b[1mdone\x1b[0m",
        "",
    ]


def test_a_line_that_is_written_again_keeps_its_colours() -> None:
    assert final_lines("old\r\x1b[32mnew\x1b(B\x1b[m") == ["\x1b[32mnew\x1b[m"]


def test_pages_of_dots_are_left_out() -> None:
    dots = [f"{'.' * 70} [ {n}%]" for n in (20, 40, 60)]
    last = f"{'.' * 41}       [100%]"
    assert without_dots(["a", *dots, last, "b"]) == ["a", "...", last, "b"]
    assert without_dots(["a", last]) == ["a", last]


def test_the_picture_is_whole_svg_and_fetches_nothing() -> None:
    picture = draw(["make", "demo"], f"in {REPO}/x: <\x1b[1m&\x1b[0m>\r\n")
    assert ElementTree.fromstring(picture).tag.endswith("svg")  # noqa: S314 - our own
    assert "~/firnline/x" in picture.replace("&#160;", " ")
    assert str(REPO) not in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_every_cell_of_a_line_has_its_own_place() -> None:
    # Else columns shift where a renderer lacks the fonts: its blanks are narrower.
    picture = draw(["make"], "live parts     6,936      13 \x1b[32m  <1 x\x1b[0m\r\n     x\r\n")
    texts = {
        "".join(text.itertext()).replace("\xa0", " "): (text.get("x"), text.get("textLength"))
        for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314 - our own
    }
    assert texts == {
        "$": ("0", "12.2"),
        "make": ("24.4", "48.8"),
        "live parts": ("0", "122"),
        "6,936": ("183", "61"),
        "13": ("317.2", "24.4"),
        "<1 x": ("378.2", "48.8"),
        "x": ("61", "12.2"),
    }
    assert in_cells(picture) == picture


def test_the_pictures_of_the_pages_are_in_cells() -> None:
    pictures = sorted((REPO / "docs" / "img").glob("demo*.svg"))
    assert pictures
    for picture in pictures:
        text = picture.read_text(encoding="utf-8")
        assert in_cells(text) == text


@pytest.mark.parametrize("private", [str(Path.home() / "x"), f"on {socket.gethostname()}-long"])
def test_what_is_of_this_machine_is_refused(private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: f"{private.removeprefix('on ')}")
    with pytest.raises(UsageError, match="of this machine"):
        draw(["make"], private)


@pytest.mark.long
def test_a_command_sees_a_terminal() -> None:
    code = "import sys, os; print(sys.stdout.isatty(), os.get_terminal_size().columns)"
    assert record([sys.executable, "-c", code]) == ("True 100\r\n", 0)


@pytest.mark.long
def test_a_command_that_fails_leaves_no_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "x.svg"
    command = [sys.executable, "-c", "print('why'); raise SystemExit(3)"]
    assert main([str(picture), *command]) == 3
    assert not picture.exists()
    assert "why" in capsys.readouterr().err
