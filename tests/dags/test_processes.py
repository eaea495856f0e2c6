"""What a process of Airflow has loaded, and what it has not: each in a new one."""

from __future__ import annotations

import os
import subprocess
import sys

from jsonschema.validators import validator_for  # type: ignore[import-untyped] # has no types

from firnline.airflow.dialect import DIALECT


def test_no_process_but_the_api_server_pays_for_the_page() -> None:
    """Airflow imports plugins in every task, too."""
    code = (
        "import sys; from firnline.airflow.page.app import Apps\n"
        "class Plugin: fastapi_apps = Apps()\n"
        "assert 'fastapi' not in sys.modules\n"
        "(app,) = Plugin.fastapi_apps\n"
        "assert Plugin.fastapi_apps[0] is app and 'fastapi' in sys.modules\n"
    )
    asked = [sys.executable, "-c", code]
    done = subprocess.run(asked, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr


def test_every_process_of_airflow_knows_the_dialect() -> None:
    """Its policies are loaded when it is imported."""
    code = (
        "import airflow.settings; from jsonschema.validators import validator_for; "
        f"print(validator_for({{'$schema': '{DIALECT}'}}).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == validator_for({"$schema": DIALECT}).__name__
