"""A browser that takes pictures of a real Airflow, and counts what a person would click."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, Locator, Page

WIDE, HIGH = 1440, 900
_MS = 300_000
"""On a busy machine a page takes a minute."""


@dataclass
class Camera:
    """Takes pictures.

    Args:
        browser: the browser.
        url: of Airflow.
        token: of its API.
        folder: where the pictures go.
    """

    browser: Browser
    url: str
    token: str
    folder: Path
    taken: list[Path] = field(default_factory=list)
    clicks: int = 0
    """Of a person, so far."""

    def open(self, path: str, scheme: str = "light") -> Page:
        """Return a page of Airflow in a window of its own, light or dark."""
        context = self.browser.new_context(
            viewport={"width": WIDE, "height": HIGH},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        context.set_default_timeout(_MS)
        context.set_default_navigation_timeout(_MS)
        context.add_cookies([{"name": "_token", "value": self.token, "url": self.url}])
        page = context.new_page()
        page.goto(f"{self.url}/{path}")
        return page

    def go(self, page: Page, path: str) -> None:
        """Open another page of Airflow in the same window."""
        page.goto(f"{self.url}/{path}")

    def click(self, where: Locator) -> None:
        """Click, and count it."""
        where.click()
        self.clicks += 1

    def save(self, page: Page, name: str, high: int = HIGH) -> None:
        """Take a picture of the upper pixels of a window."""
        self.taken.append(self.folder / name)
        clip = FloatRect(x=0.0, y=0.0, width=float(WIDE), height=float(high))
        page.screenshot(path=self.taken[-1], clip=clip)
