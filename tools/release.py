"""A release: is it one, what is uploaded, and does that hold?

    python -m tools.release check [TAG]      do version, changelog and, for a tag, all else agree?
    python -m tools.release build FOLDER     sdist, and the wheel made from it
    python -m tools.release inspect FOLDER   does the package index take them, and show the page?

Standard library only: the workflow runs it with the machine's own Python. docs/releasing.md says
who does what in which order.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tools.bootstrap import REPO, ensure_uv

SHIPPED = ("CHANGELOG.md", "LICENSE", "README.md", "include/firnline", "pyproject.toml")
"""What an sdist is made of."""
TWINE = ("--from", "twine==7.0.0", "--with", "readme_renderer[md]==46.0", "twine")
PLACEHOLDERS = ("REPOSITORY", "not on PyPI yet")
"""Words of README.md that a release makes wrong."""

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:rc(\d+))?")
_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_RELEASED = re.compile(r"\[([\w.]+)\] - \d{4}-\d\d-\d\d")
_UNRELEASED = "[Unreleased]"
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/?")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_PICTURE = re.compile(r"<picture>.*?(<img[^>]*>).*?</picture>", re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^()\s]+)(?=\))|(?<=src=\")(?![a-z]+:)([^\"]+)(?=\")")
_IMAGE = re.compile(r"!\[[^\]]*\]\((?![a-z]+:)[^()\s]+\)\n?|<img [^>]*src=\"(?![a-z]+:)[^>]*>\n?")
_LINKED = re.compile(r"\[([^\[\]]*)\]\((?![a-z]+:)[^()\s]+\)")


def read_project(repo: Path) -> dict[str, Any]:
    """Return the table ``project`` of pyproject.toml."""
    with (repo / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def ordered(version: str) -> tuple[int, ...] | None:
    """Return the numbers of a version, by which versions are compared; None if it is none.

    A candidate comes before its release.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        return None
    *numbers, candidate = found.groups()
    return (*map(int, numbers), int(candidate) if candidate else sys.maxsize)


def changelog_problems(text: str, version: str) -> list[str]:
    """Return a sentence for each thing in which a changelog is not one of this version."""
    first, *released = _SECTION.findall(text) or [""]
    if first != _UNRELEASED:
        return [f"the first section of CHANGELOG.md has to be {_UNRELEASED}"]
    found = []
    sections: list[tuple[int, ...]] = []
    for heading in released:
        named = _RELEASED.fullmatch(heading)
        numbers = ordered(named[1]) if named else None
        if numbers is None:
            found.append(f"the section `{heading}` of CHANGELOG.md is not `[X.Y.Z] - YYYY-MM-DD`")
        else:
            sections.append(numbers)
    if sections != sorted(sections, reverse=True) or len(set(sections)) < len(sections):
        found.append("the releases of CHANGELOG.md do not stand in order, the highest first")
    own = ordered(version)
    if own is None:
        found.append(f"the version {version} of pyproject.toml is not X.Y.Z, or X.Y.ZrcN")
    elif sections and own < sections[0]:
        found.append(f"CHANGELOG.md has a release after {version}, the version of pyproject.toml")
    return found


def section(text: str, heading: str) -> str:
    """Return what stands in the section whose heading begins so; empty without one."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return next((p.partition("\n")[2].strip() for p in parts if p.startswith(heading)), "")


def problems(repo: Path, tag: str = "") -> list[str]:
    """Return a sentence for each thing in which this is not a state that may be released as tag.

    Without a tag only those that are always wrong.
    """
    project, version = read_project(repo), read_project(repo)["version"]
    changes = (repo / "CHANGELOG.md").read_text(encoding="utf-8")
    found = changelog_problems(changes, version)
    if not tag:
        return found
    if tag != f"v{version}":
        found.append(f"the tag {tag} is not v{version}, after the version of pyproject.toml")
    if not section(changes, f"[{version}] - "):
        found.append(f"CHANGELOG.md has no section [{version}], or nothing in it")
    if section(changes, _UNRELEASED):
        found.append(f"changes stand in {_UNRELEASED} of CHANGELOG.md that the tag releases")
    if _GITHUB.fullmatch(project.get("urls", {}).get("Repository", "")) is None:
        found.append("project.urls of pyproject.toml has no Repository on GitHub")
    readme = (repo / "README.md").read_text(encoding="utf-8")
    found += [f"README.md says `{words}`" for words in PLACEHOLDERS if words in readme]
    return found


def description(readme: str, repository: str, tag: str) -> str:
    """Return the page of the package: the README, with links and pictures of this release.

    Without a repository there is nothing to link to: pictures are left out, links are their text.
    """
    found = _GITHUB.fullmatch(repository)
    if found is None:
        return _outside_code(readme, lambda text: _LINKED.sub(r"\1", _IMAGE.sub("", text)))
    whole = f"https://github.com/{found[1]}"
    raw = f"https://raw.githubusercontent.com/{found[1]}/{tag}"

    def address(link: re.Match[str]) -> str:
        target = link[0]
        if target.startswith("#"):  # the index names the anchors of headings otherwise
            return f"{whole}/blob/{tag}/README.md{target}"
        if target.endswith((".png", ".svg")):
            return f"{raw}/{target}"
        return f"{whole}/{'tree' if target.endswith('/') else 'blob'}/{tag}/{target}"

    return _outside_code(readme, lambda text: _LINK.sub(address, text))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts = _FENCED.split(text)
    return "".join(
        part if i % 2 else change(_PICTURE.sub(r"\1", _COMMENT.sub("", part)))
        for i, part in enumerate(parts)
    )


def build(repo: Path, folder: Path) -> list[Path]:
    """Build the sdist, and the wheel from it, with the backend of the lock. Returns both files.

    Only files that git knows get in.
    """
    project = read_project(repo)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / f"firnline-{project['version']}"
        listed = subprocess.run(
            ["git", "ls-files", "-z", *SHIPPED], cwd=repo, check=True, capture_output=True
        )
        for file in filter(None, listed.stdout.decode().split("\0")):
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repo / file, copy / file)
        text = (copy / "README.md").read_text(encoding="utf-8")
        repository = project.get("urls", {}).get("Repository", "")
        page = description(text, repository, f"v{project['version']}")
        (copy / "README.md").write_text(page, encoding="utf-8")
        lock = ("--build-constraints", repo / "requirements.lock", "--require-hashes")
        command = [ensure_uv(), "build", "-q", *lock, "-o", folder.resolve(), copy]
        subprocess.run([str(word) for word in command], check=True)
    return sorted(folder.glob(f"firnline-{project['version']}*"))


def inspect(folder: Path) -> int:
    """Let twine look at what was built, by the rules of the index. Returns its exit code."""
    files = [str(path) for path in sorted(folder.iterdir()) if path.suffix in (".whl", ".gz")]
    command = [str(ensure_uv()), "tool", "run", "-q", *TWINE, "check", "--strict", *files]
    return subprocess.run(command, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """Run one command line. Returns the exit code: 1 after a sentence for each problem."""
    match arguments:
        case ["check", *tags] if len(tags) < 2:
            found = problems(REPO, "".join(tags))
            print("\n".join(f"release: {each}" for each in found) or "release: all agrees")
            return 1 if found else 0
        case ["build", folder]:
            print("\n".join(str(path) for path in build(REPO, Path(folder))))
            return 0
        case ["inspect", folder]:
            return inspect(Path(folder))
    sys.stderr.write(f"{__doc__}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
