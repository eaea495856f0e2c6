"""In a clone all tests run; in an image, which has no more than it needs, those of ``smoke``."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
IN_IMAGE = not (HERE.parent / "tools").is_dir()
pytest_plugins = [] if IN_IMAGE else ["tests.support.plugin", "tests.dags.shared_stack"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave the other folders alone in an image, where their requirements are not installed."""
    path = collection_path.resolve()
    return True if IN_IMAGE and HERE / "smoke" not in (path, *path.parents) else None
