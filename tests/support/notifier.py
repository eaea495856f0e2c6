"""Notifiers that write down or send what they were told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier

from firnline.airflow.versions import BaseHook

VALUES = ("dag_id", "run_id", "table", "reason", "sentence", "link")
"""What there is of the context whatever the reason."""


class Told(BaseNotifier):
    """Appends a line of JSON to a file."""

    template_fields = ("word",)

    def __init__(self, file: str, word: str = "") -> None:
        super().__init__()
        self.file = file
        self.word = word

    def notify(self, context: Any) -> None:
        write(context, self.file, self.word)


class Posted(BaseNotifier):
    """Posts what every reason has, as JSON, to the server of an Airflow connection."""

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = conn_id

    def notify(self, context: Any) -> None:
        found = BaseHook.get_connection(self.conn_id)
        body = json.dumps({name: context[name] for name in VALUES})
        connection = HTTPConnection(found.host or "", found.port, timeout=20)
        connection.request("POST", "/", body)
        connection.getresponse().read()
        connection.close()


def write(context: Mapping[str, Any], file: str, word: str = "") -> None:
    """The same as a plain callback."""
    dag = context.get("dag")
    run = context.get("dag_run")
    dag_id = getattr(dag, "dag_id", None) or (run or {}).get("dag_id")
    with Path(file).open("a", encoding="utf-8") as out:
        out.write(json.dumps({"dag": dag_id, "reason": context.get("reason"), "word": word}) + "\n")
