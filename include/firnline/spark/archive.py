"""A class archive for Spark's JVM: created once, it halves the time to start an application.

    python -m firnline.spark.archive

Java maps the classes that a Spark application loads from it instead of reading, checking and
parsing them again (application class data sharing, JEP 350). It is created for one Java, one
pyspark and one user; if anything differs, Java runs without it. For images and set-up: it takes
about 20 s and 150 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from firnline.errors import EnvironmentFaultError
from firnline.settings.spark_conf import LIGHT_JVM, archive_path
from firnline.spark.session import check_java

_REHEARSAL = """
from firnline.spark.session import open_session
from firnline.spark.tasks import collect

def echo(number):
    return [str(number)]

session = open_session("firnline class archive", {})
collect(session, echo, 1, 1)
session.stop()
"""


def make_archive() -> Path:
    """Create the archive, or do nothing if it exists.

    Raises:
        EnvironmentFaultError: no Java, or the rehearsal failed.
    """
    check_java()
    target = archive_path()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        half, script = Path(folder, "half.jsa"), Path(folder, "rehearsal.py")
        script.write_text(_REHEARSAL)
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("spark-submit")),
                "--master=local[1]",
                f"--conf=spark.driver.extraJavaOptions={LIGHT_JVM} -XX:ArchiveClassesAtExit={half}",
                str(script),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        if done.returncode != 0 or not half.exists():
            lines = done.stderr.strip().splitlines() or ["spark-submit said nothing"]
            raise EnvironmentFaultError(
                f"the class archive {target} could not be created: {lines[-1]}",
                next_step="run a Spark application by hand; firnline also works without it",
            )
        half.replace(target)
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{make_archive()}\n")
