"""What nobody sees at an end of a key is found in every form in which a file of keys has texts."""

from __future__ import annotations

import sys
from unicodedata import category

import pyarrow as pa
import pytest

from firnline.errors import UsageError
from firnline.operations.erase.spaces import refuse_typed, spaced, without_spaces

TEXTS = [
    "a",
    " a",
    None,
    "a ",
    "",
    "a b",
    "\na",
    "a\u2003",
    "a\u200b",
    "\ufeffa",
    "a\u200bb",
    "\u00ad",
]
PLACES = [1, 3, 6, 7, 8, 9, 11]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_it_is_found_at_both_ends_and_not_within(kind: pa.DataType) -> None:
    assert spaced(pa.array(TEXTS, kind)) == PLACES
    assert spaced(pa.array(TEXTS, kind).dictionary_encode()) == PLACES
    assert spaced(pa.array(TEXTS, kind).slice(2)) == [place - 2 for place in PLACES[1:]]


def test_every_format_character_counts_and_is_named_alone() -> None:
    unseen = [chr(code) for code in range(sys.maxunicode + 1) if category(chr(code)) == "Cf"]
    assert len(spaced(pa.array([f"a{each}" for each in unseen]))) == len(unseen)
    batch = pa.RecordBatch.from_pydict({"k": ["secret\u200b"]})
    with pytest.raises(UsageError, match=r"has the invisible character U\+200B at an end") as said:
        list(without_spaces([batch], "f.csv", ["k"]))
    assert "secret" not in str(said.value)


def test_signs_with_such_a_character_within_are_texts_like_others() -> None:
    assert spaced(pa.array(["\U0001f468\u200d\U0001f467", "e\u0301", "\u2764\ufe0f"])) == []


def test_other_values_have_none() -> None:
    for column in (pa.array([1, None]), pa.array([b" a"]), pa.array([None, None])):
        assert spaced(column) == []


def test_the_number_of_the_key_counts_over_all_batches() -> None:
    batches = [
        pa.RecordBatch.from_pydict({"K": texts, "note": [" "] * 2})
        for texts in (["a", "b"], ["c", "d "])
    ]
    with pytest.raises(UsageError, match=r"key 4 of f\.csv has white space at an end of its K"):
        list(without_spaces(batches, "f.csv", ["k"]))
    assert len(list(without_spaces(batches, "f.csv", ["other"]))) == 2


def test_a_key_on_a_command_line_with_what_nobody_sees_is_refused_and_not_repeated() -> None:
    refuse_typed([("a", 1), ("a b", None), ("", "x")])
    with pytest.raises(UsageError, match="key 2 has white space at an end") as refused:
        refuse_typed([("a", "b"), (7, "secret ")])
    assert "secret" not in str(refused.value)
    with pytest.raises(UsageError, match=r"key 1 has the invisible character U\+200B"):
        refuse_typed([("a\u200b",)])


@pytest.mark.parametrize("text", ["\udcff", "a\ud800"])
def test_a_key_that_is_no_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="key 2 is no text in UTF-8") as refused:
        refuse_typed([("a",), (text,)])
    assert text not in str(refused.value)
