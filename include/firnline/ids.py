"""The injected source of identifiers. Only this module may make random ids (ruff enforces it)."""

from __future__ import annotations

import os
import re
from typing import Protocol

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""Text form of a UUIDv7 (RFC 9562, section 5.7), lower case."""


class Ids(Protocol):
    """A source of new identifiers."""

    def uuid7(self, now_ms: int) -> str:
        """Return a new UUIDv7 whose time field is ``now_ms`` (unix milliseconds)."""
        ...

    def secret(self) -> str:
        """Return 64 hexadecimal digits that nobody can guess."""
        ...


class SystemIds:
    """UUIDv7 from the operating system's randomness, with 74 random bits beside the time."""

    def uuid7(self, now_ms: int) -> str:
        return format_uuid7(now_ms, int.from_bytes(os.urandom(10), "big"))

    def secret(self) -> str:
        return os.urandom(32).hex()


def format_uuid7(now_ms: int, random_bits: int) -> str:
    """Format a UUIDv7 from its time (48 bits) and random bits (the low 74 are used)."""
    rand_a = (random_bits >> 62) & 0xFFF
    rand_b = random_bits & ((1 << 62) - 1)
    value = (now_ms & ((1 << 48) - 1)) << 80 | 0x7 << 76 | rand_a << 64 | 0b10 << 62 | rand_b
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid7_time_ms(text: str) -> int:
    """Return the time field of a UUIDv7, unix milliseconds. Raises ValueError for other text."""
    if UUID7.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a UUIDv7")
    return int(text[:8] + text[9:13], 16)
