"""One real Airflow for all tests of this folder, with tables in every state that matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.dags.parsing import Parser
from tests.dags.shared_stack import shared

if TYPE_CHECKING:
    from tests.dags.maintained import Maintained


@pytest.fixture(scope="session")
def maintained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maintained]:
    """The Airflow of this run, which its other processes use as well."""
    found = shared(tmp_path_factory)
    yield found
    found.stack.api.close()


@pytest.fixture(scope="session")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parser]:
    """A process that has imported Airflow, to parse DAG files in forks of it."""
    with Parser(tmp_path_factory.mktemp("parser")) as found:
        yield found
