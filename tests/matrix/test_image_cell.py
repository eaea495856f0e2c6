"""What `astro dev pytest` does in an image, in an environment that is filled as the image is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent


def test_the_checks_of_the_image_pass_and_no_other_test_runs(tmp_path: Path) -> None:
    for folder in ("dags", "plugins", "tests", ".astro"):
        if (REPO / folder).is_dir():
            shutil.copytree(REPO / folder, tmp_path / folder)
    (tmp_path / "include").mkdir()
    shutil.copy(REPO / "include" / "tables.yaml", tmp_path / "include")
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PY"))
    }
    done = subprocess.run(
        [BIN / "pytest", "tests/"],
        cwd=tmp_path,
        env={**kept, "PATH": f"{BIN}:{kept['PATH']}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/smoke/test_image.py ......" in done.stdout
    assert "collected 6 items" in done.stdout
