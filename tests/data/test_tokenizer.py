"""Words, ids and the characters they stand for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

import sentattn.data.tokenizer as text_module
from sentattn.data.tokenizer import Clip, Normalize, Tokenizer, WordTypes, backend, clipped, kept_positions

WORDS = ["film", "good", "8/10", "don't"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I don't like it", ["I", "don't", "like", "it"]),
        ("it\u2019s 'quoted'", ["it\u2019s", "'", "quoted", "'"]),
        ("8/10, 3.5 of 1,000.", ["8/10", ",", "3.5", "of", "1,000", "."]),
        ("the 5th of the 1990's", ["the", "5th", "of", "the", "1990's"]),
        ("well... no!!! Why?!", ["well", "...", "no", "!!!", "Why", "?!"]),
        ("snake_case (so-so)", ["snake", "_", "case", "(", "so", "-", "so", ")"]),
        ("one<br /><br/>two<BR>three", ["one", "two", "three"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_splits_into_words_numbers_and_punctuation(text: str, tokens: list[str]) -> None:
    assert Tokenizer(WORDS).encode([text])[0].tokens == tokens


def test_ids_start_after_the_specials_and_unknown_words_are_1() -> None:
    encoded = Tokenizer(WORDS).encode(["Good FILM, don't miss: 8/10"])[0]
    assert encoded.ids.tolist() == [3, 2, 1, 5, 1, 1, 4]
    assert len(Tokenizer(WORDS)) == 6


def test_case_counts_without_lowercase() -> None:
    assert Tokenizer(WORDS, lowercase=False).encode(["Good good"])[0].ids.tolist() == [1, 3]


def test_specials_in_a_text_are_no_specials() -> None:
    assert Tokenizer(["pad", "<", ">"]).encode(["<pad>"])[0].ids.tolist() == [3, 2, 4]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Über <br /> Äpfel und Öl", ["Über", "Äpfel", "und", "Öl"]),
        ("cafe\u0301 nai\u0308ve", ["cafe\u0301", "nai\u0308ve"]),  # combining accents
        ("\U0001f600 so \U0001f44d\U0001f3fd good", ["\U0001f600", "so", "\U0001f44d\U0001f3fd", "good"]),
        ("\u0130stanbul and more", ["\u0130stanbul", "and", "more"]),  # two characters in lower case
        ("\U0001f600<br />\u0130\u0130<br/>good", ["\U0001f600", "\u0130\u0130", "good"]),
    ],
)
def test_spans_are_characters_of_the_original_text(text: str, tokens: list[str]) -> None:
    encoded = Tokenizer(WORDS).encode([text])[0]
    assert [text[start:end] for start, end in encoded.spans] == tokens == encoded.tokens


@pytest.mark.parametrize("normalize", [None, "nfc"])
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I \u2764\ufe0fgreat", ["I", "\u2764\ufe0f", "great"]),  # a variation selector
        ("\U0001f469\U0001f3fd\u200d\U0001f680ok", ["\U0001f469\U0001f3fd\u200d\U0001f680", "ok"]),  # an astronaut
        ("\u2764\ufe0f\u200d\U0001f525\u2764\ufe0f", ["\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f"]),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f!", ["\U0001f3f4\U000e0067\U000e0062\U000e007f", "!"]),  # a flag
        ("1\ufe0f\u20e3 !\ufe0fgo ..\ufe0fgo", ["1\ufe0f\u20e3", "!\ufe0f", "go", "..\ufe0f", "go"]),
        ("a \ufe0fgreat<br>\u0301e", ["a", "\ufe0f", "great", "\u0301", "e"]),  # follows nothing
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 x",
            ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "x"],
        ),
        ("\u0dc1\u0dca\u200d\u0dbb\u0dd3.", ["\u0dc1\u0dca\u200d\u0dbb\u0dd3", "."]),
        ("good\u200d\U0001f600", ["good\u200d", "\U0001f600"]),
    ],
)
def test_combining_marks_stay_with_their_characters(text: str, tokens: list[str], normalize: Normalize) -> None:
    assert Tokenizer(WORDS, normalize=normalize).encode([text])[0].tokens == tokens
    types = WordTypes(lowercase=False, normalize=normalize)
    read = types.read(text)
    assert [list(types.numbers)[number] for number in read] == tokens


@pytest.mark.parametrize(
    "text", ["caf\xe9 na\xefve", "\ud55c\uae00 \xc5ngstr\xf6m", "\u1ea1\u0307b <br/>\xe9!", "\u1e69"]
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_are_one_word_in_either_unicode_form(text: str, form: Literal["NFC", "NFD"], tmp_path: Path) -> None:
    composed, given_text = unicodedata.normalize("NFC", text), unicodedata.normalize(form, text)
    types = WordTypes(lowercase=True, normalize="nfc")
    read, words = types.read(given_text), list(types.numbers)
    assert words == list(dict.fromkeys(composed.lower().replace("<br/>", "").replace("!", " !").split()))
    tokenizer = Tokenizer(words, normalize="nfc")
    tokenizer.save(tmp_path / "tokenizer.json")
    for one in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        encoded = one.encode([given_text])[0]
        assert [number - 2 for number in encoded.ids] == read.tolist()
        assert [given_text[start:end] for start, end in encoded.spans] == encoded.tokens
        assert [unicodedata.normalize("NFC", token).lower() for token in encoded.tokens] == [words[i] for i in read]
    assert Tokenizer(words).encode([given_text])[0].ids.tolist().count(1) == (
        0 if form == "NFC" else len(encoded.ids) - text.count("!")
    )


ACCENTS = st.text(
    alphabet="aeAq.!5 '<br/>\n\u0301\u0323\u0338\u0344\u1100\u1161\u11a8\u212b\ufe0f\u200d\u2764\xe9=", max_size=30
)


@given(ACCENTS | st.text(alphabet=st.characters(exclude_categories=["Cs", "Cn"]), max_size=60))
def test_spans_of_normalized_words_are_those_of_the_text(text: str) -> None:
    types = WordTypes(lowercase=True, normalize="nfc")
    read, words = types.read(text), list(types.numbers)
    encoded = Tokenizer(words, normalize="nfc").encode([text])[0]
    assert [number - 2 for number in encoded.ids] == read.tolist()
    assert sorted(set(encoded.spans)) == encoded.spans
    for token, number in zip(encoded.tokens, read, strict=True):
        lower = backend({}, lowercase=True).normalizer.normalize_str(unicodedata.normalize("NFC", token))
        assert lower == words[number]


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=60))
def test_ascii_is_split_as_by_the_pattern(text: str) -> None:
    pattern = r"\d+(?:[./,]\d+)*(?!['\u2019]?[^\W_])|[^\W_]+(?:['\u2019][^\W_]+)*|\.{2,}|[!?]+|[^\w\s]|_"
    spaced = re.sub(r"(?i)<br[ \t\n\r\f\v]*/?>", lambda match: " " * len(match[0]), text)
    spans = [match.span() for match in re.finditer(pattern, spaced, re.ASCII)]
    for normalize in (None, "nfc"):
        assert Tokenizer(WORDS, normalize=normalize).encode([text])[0].spans == spans


@pytest.mark.parametrize(("clip", "kept"), [("head", "a b c"), ("tail", "c d e"), ("both", "a b e")])
def test_long_texts_are_clipped(clip: str, kept: str) -> None:
    encoded = Tokenizer(["a", "b", "c", "d", "e"], max_length=3, clip=clip).encode(["a b c d e", "a b"])  # type: ignore[arg-type]
    assert encoded[0].tokens == kept.split()
    assert encoded[0].ids.tolist() == ["abcde".index(token) + 2 for token in kept.split()]
    assert encoded[0].spans == [("a b c d e".index(token), "a b c d e".index(token) + 1) for token in kept.split()]
    assert encoded[1].tokens == ["a", "b"]


def test_more_texts_than_a_chunk_keep_their_order() -> None:
    encoded = Tokenizer(["1", "2"]).encode(["1", "2 2"] * 700)
    assert [one.ids.tolist() for one in encoded] == [[2], [3, 3]] * 700


def test_saved_file_is_portable(tmp_path: Path) -> None:
    file, text = tmp_path / "tokenizer.json", "A GOOD film<br />don't... 8/10 \u0130"
    tokenizer = Tokenizer(WORDS)
    tokenizer.save(file)
    ids = tokenizer.encode([text])[0].ids.tolist()
    assert tokenizers.Tokenizer.from_file(str(file)).encode(text).ids == ids
    loaded = Tokenizer.load(file, max_length=2, clip="tail")
    assert loaded.words == WORDS
    assert loaded.encode([text])[0].ids.tolist() == ids[-2:]


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_text(content)
    assert_refused(lambda: Tokenizer.load(file), str(file), "unreadable", "tokenizer.json")


def test_a_tokenizer_with_other_specials_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a")).save(str(file))
    assert_refused(lambda: Tokenizer.load(file), str(file), "unreadable", "<pad>")


def test_lone_surrogates_are_refused() -> None:
    assert_refused(lambda: Tokenizer(WORDS).encode(["fine", "bad\udcff"]), "text", "unreadable", "character 4")


@pytest.mark.parametrize("normalize", [None, "nfc"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_word_types_are_those_of_the_library(lowercase: bool, normalize: Normalize) -> None:
    signs = [
        *"  aB15.,!?'\u2019_<>/\n\t\r\x1c\x85\xa0\u2028",
        "<br />",
        "<BR/>",
        "<br\x1c/>",
        "<br\x85>",
        "<br\u3000/>",
    ]
    signs += [
        *"\ufe0f\u200c\U0001f3fd\u0338=e\u0130\u03a3\u0301\u00bd\u00b2\u0663\u4e2d\u200d\u212a\u017f\ufb01\u1e9e\U0001f600"
    ]
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(signs, size=length)) for length in random.integers(1, 40, size=1000)]
    library = backend({}, lowercase=lowercase, normalize=normalize)
    types = WordTypes(lowercase=lowercase, normalize=normalize)
    read = [types.read(text) for text in texts]
    words = list(types.numbers)
    for text, numbers in zip(texts, read, strict=True):
        tokens = library.pre_tokenizer.pre_tokenize_str(library.normalizer.normalize_str(text))
        assert [words[number] for number in numbers] == [token for token, _ in tokens], text


def test_word_types_do_not_depend_on_their_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["b a. B", "a<br>c", "b " + "word." * 20] * 2
    kept = WordTypes(lowercase=True)
    before = [kept.read(text) for text in texts]
    monkeypatch.setattr(text_module, "MAX_PIECES", 1)
    fresh = WordTypes(lowercase=True)
    assert [fresh.read(text) for text in texts] == before
    assert len(fresh) == 1
    assert max(map(len, kept)) <= text_module.MAX_PIECE_LENGTH


def test_a_fork_neither_warns_nor_hangs() -> None:
    script = """
import os
from sentattn.data.tokenizer import Tokenizer
tokenizer = Tokenizer(["a"])
texts = ["a b"] * 3000
before = [one.ids.tolist() for one in tokenizer.encode(texts)]
child = os.fork()
if not child:
    os._exit(before != [one.ids.tolist() for one in tokenizer.encode(texts)])
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    max_length=st.none() | st.integers(1, 20),
    clip=st.sampled_from(["head", "tail", "both"]),
)
def test_kept_positions_rise_within_each_text(lengths: list[int], max_length: int | None, clip: Clip) -> None:
    positions, mask = kept_positions(np.array(lengths), max_length, clip)
    assert mask.sum(axis=1).tolist() == clipped(np.array(lengths), max_length).tolist()
    assert not positions[~mask].any()
    for row, real, length in zip(positions, mask, lengths, strict=True):
        kept = row[real]
        assert (np.diff(kept) > 0).all()
        assert not len(kept) or 0 <= kept[0] <= kept[-1] < length
