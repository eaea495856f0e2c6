"""A regular expression that some name would keep busy for hours is refused before it meets one."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firnline.settings.pattern_cost import MAX_LENGTH, refuse_slow

SANE = [
    r"d=(?P<day>\d{4}-\d{2}-\d{2})",
    r"(?P<year>\d{4})/(?P<month>\d{2})/(?P<day>\d{2})/h(?P<hour>\d{2})",
    r"(?P<year>\d{4})(?:/(?P<month>\d\d))?(?:/(?P<day>\d\d))?",
    r".*d=(?P<day>.*)",
    r"^.*d=(?P<day>.+)$",
    r"(?:[^/]+/)*d=(?P<day>[^/]+)",
    r"(?:[^/=]+=[^/]*/)+d=(?P<day>\d+-\d+-\d+)",
    r"(?:\w+/)*d=(?P<day>[\w-]+)",
    r"(?:[a-z]+=[a-z0-9]+/){0,5}d=(?P<day>\d{8})",
    r"region=(?:eu|us|ap)/d=(?P<day>\d{4}-(?:0[1-9]|1[0-2])-(?:[0-2]\d|3[01]))",
    r"y=(?P<year>.*)/m=(?P<month>.*)/d=(?P<day>.*)/h=(?P<hour>.*)",
    r"y=(?P<year>[^/]+)/m=(?P<month>[^/]+)/d=(?P<day>[^/]+)/h=(?P<hour>[^/]+)/x=[^/]+/y=[^/]+",
    r"(?i)day=(?P<day>\d{4}-?\d{2}-?\d{2})(?:T\d+)?",
    r"[^/]+/[^/]+/(?P<day>\d{4}-\d{2}-\d{2})",
    r"(?!tmp).*d=(?P<day>\d{4}-\d{2}-\d{2})",
    r"(?:0|[1-9]\d*)",
    r"[A-Za-z0-9_.-]{1,200}",
    r"carrier=[^/]*/flight_month=\d{4}-\d{2}",
    r"(?:a|b|c)*d",
    r"(?:[A-Z][a-z]+)*=(?P<day>\d+)",
    r"(?:ab|AB)*c",
    r"(?:[^/]*/)?d=(?P<day>.*?)",
    r"\d{4}(?:-\d{2})*",
    r"",
]


@pytest.mark.parametrize("pattern", SANE)
def test_sane_patterns_are_allowed(pattern: str) -> None:
    refuse_slow(pattern)


SLOW = [
    r"(a+)+b",
    r"(a*)*b",
    r"(?:a|a)*b",
    r"(?:a|ab|b)*c",
    r"(?P<day>(?:\d+-?)+)x",
    r"([a-z]+)*=(?P<day>\d+)",
    r"(?:\w+\s?)*d=(?P<day>.*)",
    r"(?:.*/)*d=(?P<day>.*)",
    r"(?:a?a?/)*x",
    r"(?:-?\d{4}-?)+x",
    r"(?:x+x+)+y",
    r"((?:a|b)+c?)*d",
    r"(?:a{1,30}){1,30}b",
    r"(?:(?:a?)*b)*c",
    r"(?i)(?:ab|AB)*c",
    r"(?=(a+)+b)a*",
    r".*.*.*.*.*=x",
    r".*y=(?P<year>.*)/m=(?P<month>.*)/d=(?P<day>.*)/h=(?P<hour>.*)",
]


@pytest.mark.parametrize("pattern", SLOW)
def test_patterns_that_may_take_hours_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="may take very long on some names"):
        refuse_slow(pattern)


LETTERS = "".join(map(chr, range(0x4E00, 0x4E80)))


@pytest.mark.long
def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="refers back to a group"):
        refuse_slow(r"(?P<x>\w+)-(?P=x)")
    for large in (r"(?:[ab]{16}){16}c", f"(?:{''.join(f'{c}?' for c in LETTERS)}!)*"):
        with pytest.raises(ValueError, match="too large"):
            refuse_slow(large)
    with pytest.raises(ValueError, match="too many repeats"):
        refuse_slow("".join(f"{c}*" for c in LETTERS))
    with pytest.raises(ValueError, match=f"{MAX_LENGTH} characters, this one has 501"):
        refuse_slow("a" * 501)


ATOMS = st.sampled_from(["a", "b", "[ab]", "-", ".", r"\w", "[^-]"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=2).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,40}"])).map(
            lambda each: f"(?:{each[0]}){each[1]}"
        ),
    ),
    max_leaves=6,
)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(PATTERNS)
def test_what_is_allowed_is_fast(pattern: str) -> None:
    try:
        refuse_slow(pattern)
    except ValueError:
        return
    compiled = re.compile(pattern)
    for period in ("a", "b", "-", "ab", "a-", "aab", "ab-"):
        began = time.process_time()
        compiled.fullmatch(period * (28 // len(period)) + "!\n")
        assert time.process_time() - began < 1, period
