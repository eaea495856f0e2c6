from __future__ import annotations

from collections.abc import Callable

from firnline.airflow.page.background import Background


class LateBackground(Background):
    """Work of the page that waits until a test does it: two may have asked for it by then."""

    def __init__(self) -> None:
        super().__init__("late", 1)
        self.acts: list[Callable[[], None]] = []

    def start(self, what: str, act: Callable[[], None]) -> bool:
        self.acts.append(act)
        return True
