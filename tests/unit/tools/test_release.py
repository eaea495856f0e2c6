"""What may be released, and what the package index shows of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import release
from tools.bootstrap import REPO

ADDRESS = "https://github.com/example/firnline"
RELEASED = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-03-01

- More.

## [0.1.0] - 2026-02-01

- First.
"""


def repository(folder: Path, *, version: str = "0.2.0", changes: str = RELEASED) -> Path:
    """What a check of a release looks at, in a state that may be released."""
    urls = f'[project.urls]\nRepository = "{ADDRESS}"\n'
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n{urls}')
    (folder / "CHANGELOG.md").write_text(changes)
    (folder / "README.md").write_text("pip install firnline\n")
    return folder


def test_the_version_of_this_state_has_its_place_in_the_changelog() -> None:
    assert release.problems(REPO) == []


def test_a_state_that_is_one_release_may_be_tagged(tmp_path: Path) -> None:
    assert release.problems(repository(tmp_path), "v0.2.0") == []


@pytest.mark.parametrize(
    ("version", "changes", "said"),
    [
        ("0.1.0", RELEASED, "has a release after 0.1.0"),
        ("0.2.0rc1", RELEASED, "has a release after 0.2.0rc1"),
        ("0.2", RELEASED, "the version 0.2 of pyproject.toml is not X.Y.Z"),
        ("0.2.0", RELEASED.replace(" - 2026-03-01", ""), "`[0.2.0]` of CHANGELOG.md is not"),
        ("0.2.0", RELEASED.replace("0.1.0", "0.3.0"), "do not stand in order"),
        ("0.2.0", RELEASED.replace("0.1.0] - 2026-02-01", "0.2.0] - 2026-03-01"), "in order"),
        ("0.2.0", RELEASED.replace("## [Unreleased]\n", ""), "has to be [Unreleased]"),
        ("0.2.0", "# Changelog\n", "has to be [Unreleased]"),
    ],
)
def test_a_changelog_of_another_form_is_said(
    tmp_path: Path, version: str, changes: str, said: str
) -> None:
    (problem, *_) = release.problems(repository(tmp_path, version=version, changes=changes))
    assert said in problem


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("pyproject.toml", "0.2.0", "0.2.1", "v0.2.0 is not v0.2.1"),
        ("CHANGELOG.md", "- More.", "", "no section [0.2.0], or nothing in it"),
        ("CHANGELOG.md", "[Unreleased]\n", "[Unreleased]\n\n- New.\n", "changes stand in"),
        ("pyproject.toml", ADDRESS, "https://example.org", "no Repository"),
        ("README.md", "pip", "git clone REPOSITORY && pip", "says `REPOSITORY`"),
    ],
)
def test_a_tag_of_another_state_is_refused(
    tmp_path: Path, file: str, before: str, after: str, said: str
) -> None:
    path = repository(tmp_path) / file
    path.write_text(path.read_text().replace(before, after, 1))
    assert any(said in problem for problem in release.problems(tmp_path, "v0.2.0"))


def test_a_candidate_comes_before_its_release() -> None:
    versions = ["0.9.0", "1.0.0rc1", "1.0.0rc2", "1.0.0", "1.0.1", "1.0.10"]
    numbers = [release.ordered(version) for version in versions]
    assert None not in numbers
    assert numbers == sorted(n for n in numbers if n is not None)
    assert release.ordered("1.0.0.dev1") is None


def test_links_and_pictures_of_the_page_are_those_of_the_release() -> None:
    text = (
        "[why](docs/why.md#cost) ![a\npicture](docs/img/a.svg) [here](#install) [all](docs/rfcs/)\n"
        '<!-- drawn by hand -->\n<picture>\n<source srcset="docs/img/d.png">\n'
        '<img alt="x" src="docs/img/l.png">\n</picture>\n[out](https://example.org/a.md)\n'
        "```sh\n[kept](docs/why.md) <!-- kept -->\n```\n"
    )
    raw = "https://raw.githubusercontent.com/example/firnline/v1.0.0/docs/img"
    assert release.description(text, ADDRESS, "v1.0.0") == (
        f"[why]({ADDRESS}/blob/v1.0.0/docs/why.md#cost) ![a\npicture]({raw}/a.svg)"
        f" [here]({ADDRESS}/blob/v1.0.0/README.md#install) "
        f"[all]({ADDRESS}/tree/v1.0.0/docs/rfcs/)\n"
        f'<img alt="x" src="{raw}/l.png">\n[out](https://example.org/a.md)\n'
        "```sh\n[kept](docs/why.md) <!-- kept -->\n```\n"
    )


def test_without_a_repository_the_page_links_to_nothing() -> None:
    text = "[`Why`](docs/why.md) ![p](docs/img/a.svg)\n[out](https://example.org)\n"
    assert release.description(text, "", "v1.0.0") == "`Why` [out](https://example.org)\n"


@pytest.mark.parametrize("repository", [ADDRESS, ""])
def test_the_page_of_this_readme_has_no_relative_link(repository: str) -> None:
    page = release.description((REPO / "README.md").read_text("utf-8"), repository, "v1.0.0")
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)]*)\)|(?:src|srcset|href)=\"([^\"]*)\"", prose)
    assert bool(targets) is bool(repository)
    relative = [a or b for a, b in targets if not (a or b).startswith("https://")]
    assert (relative, "<source" in page) == ([], False)
    raw, kept = "https://raw.githubusercontent.com/example/firnline/v1.0.0/", []
    for target in (a or b for a, b in targets):
        kept += [target.removeprefix(raw)] if target.startswith(raw) else []
    assert [path for path in kept if not (REPO / path).is_file()] == []


def test_what_is_shipped_is_what_the_sdist_names() -> None:
    text = (REPO / "pyproject.toml").read_text("utf-8")
    (listed,) = re.findall(r"sdist\]\n(?:#.*\n)*include = \[(.*)\]", text)
    named = re.findall(r'"([^"]+)"', listed)
    assert all(each.startswith("/") for each in named), "else docs/rfcs/README.md is one of them"
    assert {*(each.removeprefix("/") for each in named), "pyproject.toml"} == set(release.SHIPPED)


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["check"]) == 0
    assert capsys.readouterr().out == "release: all agrees\n"
    assert release.main(["check", "v9.9.9"]) == 1
    assert "release: the tag v9.9.9 is not v" in capsys.readouterr().out
    assert release.main(["upload"]) == 2
