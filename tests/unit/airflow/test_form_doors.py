"""Whatever a form asks for reaches the options of a task: nothing that people set is ignored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firnline.airflow.erase import EraseWork
from firnline.airflow.footers import FooterWork
from firnline.airflow.merge import MergeWork
from firnline.airflow.prepared import APPROVE, ASSERT
from firnline.airflow.rewrite import RewriteWork
from firnline.airflow.sweep import SweepWork
from firnline.airflow.update import UpdateWork
from firnline.airflow.work import Work
from firnline.airflow.works import (
    CleanupWork,
    DeleteWork,
    RebuildWork,
    ReplaceWork,
    RestoreWork,
    TtlWork,
    VerifyWork,
)
from firnline.operations.fields import OptionField, option_fields

WORKS: dict[str, tuple[Work[Any], ...]] = {
    type(works[0]).__name__: works
    for works in (
        (CleanupWork(),),
        (DeleteWork(),),
        (EraseWork(),),
        (MergeWork(),),
        (RebuildWork(),),
        (ReplaceWork(),),
        (RestoreWork(),),
        (RewriteWork(),),
        (SweepWork(),),
        (TtlWork(),),
        (UpdateWork(),),
        (VerifyWork(), FooterWork()),
    )
}
"""The works of the tasks that read the params of one form."""
RENAMED = {"assertions": ASSERT}
EXCLUSIVE = {"ReplaceWork": ("files", "nothing")}
"""Params of which one is given at a time."""


def given(field: OptionField) -> Any:
    """Return a value for a field that is not its default."""
    if field.option.unit:
        return {"size": "7GiB", "duration": "9d", "time": "2013-01-01"}[field.option.unit]
    values = {"flag": True, "number": 7, "texts": ["a"], "pairs": {"a": "b"}}
    return values.get(field.kind, (field.choices or ("a",))[-1])


@pytest.mark.parametrize("name", WORKS)
def test_what_a_form_asks_for_reaches_a_task(name: str) -> None:
    works = WORKS[name]
    struct: type[msgspec.Struct] = works[0].about.options
    fields = [field for field in option_fields(struct) if field.option.form]
    params = {RENAMED.get(field.name, field.name): given(field) for field in fields}
    params |= {APPROVE: True} if APPROVE in works[0].all_params() else {}
    assert params.keys() <= works[0].all_params().keys()
    runs = [
        {key: value for key, value in params.items() if key != left_out}
        for left_out in EXCLUSIVE.get(name, ("",))
    ]
    results = [work.options(run, dry_run=False) for work in works for run in runs]
    options = [getattr(result, "options", result) for result in results]
    ignored = [
        field.name
        for field in fields
        if all(getattr(each, field.name) in (field.default, None, False, ()) for each in options)
    ]
    assert ignored == []
