"""Notifiers that write down what they were told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class Told(BaseNotifier):
    """Appends a line of JSON to a file."""

    template_fields = ("word",)

    def __init__(self, file: str, word: str = "") -> None:
        super().__init__()
        self.file = file
        self.word = word

    def notify(self, context: Any) -> None:
        write(context, self.file, self.word)


def write(context: Mapping[str, Any], file: str, word: str = "") -> None:
    """The same as a plain callback."""
    dag = context.get("dag")
    run = context.get("dag_run")
    dag_id = getattr(dag, "dag_id", None) or (run or {}).get("dag_id")
    with Path(file).open("a", encoding="utf-8") as out:
        out.write(json.dumps({"dag": dag_id, "reason": context.get("reason"), "word": word}) + "\n")
