"""Jars of Maven Central in pinned versions, by the client of it that PySpark brings (Ivy).

A list of jars is a file with a line for each: SHA-256, two blanks, ``group:name:version``, and
``:classifier`` where there is one. What such jars need stands in the list too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from firnline.errors import EnvironmentFaultError
from tools.bootstrap import find_java

_NAMED = "[organisation]_[artifact]-[revision](-[classifier]).[ext]"


def read_list(path: Path) -> dict[str, str]:
    """Return the jars of a list: coordinates -> SHA-256."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {jar: digest for digest, _, jar in (line.partition("  ") for line in lines)}


def jar_name(jar: str) -> str:
    """Return the name of a jar's file in a folder of jars."""
    group, name, *rest = jar.split(":")
    return f"{group}_{name}-{'-'.join(rest)}.jar"


def check(path: Path, jar: str, digest: str) -> None:
    """Compare a jar with its checksum.

    Raises EnvironmentFaultError: it is not what it was.
    """
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != digest:
        raise EnvironmentFaultError(
            f"the jar of {jar} has the SHA-256 {found}, and not {digest}",
            next_step="see what is wrong with the download",
        )


def java() -> str:
    """Return the Java program of this machine.

    Raises EnvironmentFaultError: there is none.
    """
    home, _ = find_java()
    if home is None:
        raise EnvironmentFaultError("this machine has no Java", next_step="run `make setup`")
    return str(Path(home) / "bin" / "java")


def spark_jars() -> Path:
    """Return the folder of the jars that PySpark brings, with Ivy and Hadoop among them."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentFaultError("PySpark is not installed", next_step="run `make setup`")
    return Path(spec.origin).with_name("jars")


def ensure_jars(jars: Mapping[str, str], folder: Path) -> list[Path]:
    """Return the files of jars, fetched into a folder of theirs if it is not there.

    Raises EnvironmentFaultError: there is no Java, a jar cannot be had, or is not what it was.
    """
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            new = _fetch(jars, Path(work))
            for jar, digest in jars.items():
                check(new / jar_name(jar), jar, digest)
            # In one step: another process may be looking for it or making it, too.
            try:
                new.rename(folder)
            except OSError:
                if not folder.exists():
                    raise
    return [folder / jar_name(jar) for jar in jars]


def _fetch(jars: Mapping[str, str], work: Path) -> Path:
    wanted = work / "ivy.xml"
    wanted.write_text(_module(jars), encoding="utf-8")
    command = [java(), f"-Divy.default.ivy.user.dir={work}", "-cp", f"{spark_jars()}/*"]
    command += ["org.apache.ivy.Main", "-cache", str(work / "cache"), "-ivy", str(wanted)]
    command += ["-retrieve", f"{work}/jars/{_NAMED}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=_plain())
    if done.returncode != 0:
        raise EnvironmentFaultError(
            f"Ivy fetched no jars of Maven Central: {done.stdout.strip()[-500:]}",
            next_step="check that Maven Central can be reached, run the command again",
        )
    shutil.rmtree(work / "cache")
    return work / "jars"


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "CLASSPATH"}


def _module(jars: Mapping[str, str]) -> str:
    """Return what Ivy is to fetch: these jars, and nothing because they need it."""
    modules: dict[tuple[str, str, str], list[str]] = {}
    for jar in jars:
        group, name, version, *classifier = jar.split(":")
        modules.setdefault((group, name, version), []).append("".join(classifier))
    lines = []
    for (group, name, version), classifiers in modules.items():
        named = f"name={quoteattr(name)}"
        lines.append(f"<dependency org={quoteattr(group)} {named} rev={quoteattr(version)}")
        lines.append(' transitive="false" conf="default->master">')
        for each in classifiers:
            extra = f" m:classifier={quoteattr(each)}" if each else ""
            lines.append(f'<artifact {named} type="jar" ext="jar"{extra}/>')
        lines.append("</dependency>")
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="firnline" module="jars"/>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )
