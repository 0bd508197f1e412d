import json
import re
import unicodedata
from dataclasses import replace

import pytest
from example_predictions import SENTENCE, WORD, clipped, example, paired, with_spans
from hypothesis import given
from hypothesis import strategies as st

from sentattn.prediction.prediction import (
    MAX_SHOWN,
    UNREAD,
    Map,
    Piece,
    Prediction,
    Predictions,
    color_limit,
    notes,
    pair_summary,
    pieces,
    summary,
    visible,
)

WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=120).filter(lambda weights: sum(weights) > 0)
WORDS = ["not", "good", "at", "all"]
MAP = [[0.7, 0.1, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1], [0.0, 0.5, 0.25, 0.25], [0.3, 0.3, 0.3, 0.1]]
EVEN = [[0.25] * 4] * 4
PLAIN = st.text(st.characters(categories=["L", "N", "P", "S"]) | st.sampled_from(" \n\t"), max_size=60)


def test_json_has_all_fields_and_optional_ones_where_they_exist() -> None:
    maps = [[[0.75, 0.25], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]]
    prediction = Prediction(
        "Good!", "b", {"a": 0.25, "b": 0.75}, ["good", "!"], [(0, 4), (4, 5)], [[0.9, 0.1]], unknown=[1]
    )
    expected = {
        "text": "Good!",
        "label": "b",
        "probabilities": {"a": 0.25, "b": 0.75},
        "tokens": ["good", "!"],
        "spans": [[0, 4], [4, 5]],
        "unknown": [1],
        "attention": [[0.9, 0.1]],
    }
    for found, more in ((prediction, {}), (replace(prediction, pairs=maps), {"pairs": maps})):
        record = json.loads(json.dumps(found.to_json()))
        assert record == expected | more
        assert list(record) == [*expected, *more]
    assert clipped("a b c", [0, 2]).to_json()["cut"] is True


def spans_of(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text)]


@given(PLAIN.filter(lambda text: "<" not in text))
def test_pieces_join_to_the_text(text: str) -> None:
    assert "".join(piece.text for piece in pieces(text, spans_of(text))) == text


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("So GOOD!", [(0, 2), (3, 7), (7, 8)], [Piece("So", 0), Piece(" "), Piece("GOOD", 1), Piece("!", 2)]),
        ("one two three", [(4, 7)], [Piece(UNREAD, unread=True), Piece("two", 0), Piece(UNREAD, unread=True)]),
    ],
)
def test_a_piece_is_a_token_or_what_is_between(text: str, spans: list[tuple[int, int]], expected: list[Piece]) -> None:
    assert list(pieces(text, spans)) == expected


@pytest.mark.parametrize(
    ("between", "shown"),
    [
        (" -- ", " -- "),
        ("<br />", "\n"),
        (" <br /><br />", "\n\n"),
        ("<BR>", "\n"),
        ("<br/><br/><br/><br/>", "\n\n"),
        ("\r\n", "\n"),
    ],
)
def test_text_between_tokens_is_shown(between: str, shown: str) -> None:
    text = f"a{between}b"
    assert [piece.text for piece in pieces(text, [(0, 1), (len(text) - 1, len(text))])] == ["a", shown, "b"]


@given(st.text())
def test_control_characters_are_replaced(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    assert not [sign for sign in shown if unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\n\t"]
    shown.encode()


def test_replacements_of_control_characters() -> None:
    assert visible("\x1b[31m\x07\x7f\x9b\u202e\ud800") == "\u241b[31m\u2407\u2421\ufffd\ufffd\ufffd"
    text = "na\u00efve \u4f60\u597d \U0001f469\u200d\U0001f680"
    assert visible(text) == text


def shades(weights: list[float]) -> list[float]:
    return example().shades(weights)


@given(WEIGHTS)
def test_shades_increase_with_weights(weights: list[float]) -> None:
    strength = shades(weights)
    order = sorted(range(len(weights)), key=weights.__getitem__)
    assert [strength[i] for i in order] == sorted(strength)
    assert 0 <= min(strength) <= max(strength) <= 1


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.6, 0.3, 0.1], [0.9, 0.45, 0.15]),  # of three, twice an even share is 2/3
        ([0.5, 0.25, 0.125, 0.125], [1.0, 0.5, 0.25, 0.25]),
        *((even, [0.0] * len(even)) for even in ([0.25] * 4, [0.25, 0.25 + 1e-8, 0.25, 0.25], [1.0], [])),
    ],
)
def test_shades_of_short_rows(weights: list[float], expected: list[float]) -> None:
    assert shades(weights) == pytest.approx(expected)
    assert color_limit([]) == 1.0


def test_even_weights_of_pieces_shade_no_word_of_several_pieces() -> None:
    spans = [(0, 0), (0, 4), (4, 7), (8, 11), (11, 11)]  # [CLS] play ing not [SEP]
    even = with_spans("playing not", spans, [0.2] * 5).in_words()
    assert even.mean_attention == pytest.approx([0.4, 0.2])
    assert even.shades(even.mean_attention) == [0.0, 0.0]
    peaked = with_spans("playing not", spans, [0.2, 0.1, 0.1, 0.5, 0.1]).in_words()
    assert peaked.shades(peaked.mean_attention)[1] > 0


def test_shades_of_a_long_row_with_an_outlier() -> None:
    rest = [0.5 * i / 4950 for i in range(100)]  # up to 0.01
    strength = shades([0.5, *rest])
    assert strength[0] == 1.0
    assert strength[-50] > 0.2
    assert color_limit([0.5, *rest]) == pytest.approx(2 / 101)


@pytest.mark.parametrize(
    ("weights", "count", "expected"),
    [
        ([0.1, 0.5, 0.1, 0.3], 2, "b 0.500 \u00b7 d 0.300"),
        ([0.2, 0.4, 0.2, 0.2], 3, "b 0.400"),  # words that tie with the first left out are left out
        ([0.0, 1.0, 0.0, 0.0], 3, "b 1.000"),
        ([0.25, 0.25, 0.25 + 1e-12, 0.25], 3, "4 words tie at 0.250"),
        ([0.75, 0.25], 3, "a 0.750 \u00b7 b 0.250"),
    ],
)
def test_top_words_are_sorted_by_weight(weights: list[float], count: int, expected: str) -> None:
    assert summary(["a", "b", "c", "d"][: len(weights)], weights, count) == expected


@pytest.mark.parametrize(
    ("maps", "count", "expected"),
    [
        ([MAP], 2, "good \u2192 not 0.600 \u00b7 at \u2192 good 0.500"),
        ([MAP], 3, "good \u2192 not 0.600 \u00b7 at \u2192 good 0.500"),  # the next two tie
        ([EVEN, MAP], 1, "good \u2192 not 0.600 (head 2)"),
        ([EVEN], 3, "no pair of words stands out"),
        ([[[1.0]]], 3, "no pair of words stands out"),
    ],
)
def test_top_pairs_are_sorted_by_weight(maps: list[Map], count: int, expected: str) -> None:
    before = [list(row) for row in MAP]
    assert pair_summary(WORDS[: len(maps[0])], maps, count) == expected
    assert before == MAP


def test_unknown_tokens_are_counted_and_named_once() -> None:
    assert notes(example()) == []
    [note] = notes(example(SENTENCE, unknown=[0, 8]))
    assert note.startswith("2 of 10 tokens ")
    assert note.endswith(": Slow, GREAT")
    assert notes(example("a a b", unknown=[0, 1]))[0].endswith(": a")
    [many] = notes(example(" ".join(f"w{i}" for i in range(30)), unknown=range(30)))
    assert many.endswith("w8, w9 and 20 more")
    assert "\x1b" not in notes(example("_\x1b_", unknown=[0]))[0]


def test_a_notebook_shows_label_text_and_each_hop() -> None:
    shown = example("a b", [0.9, 0.1], [0.2, 0.8], label="good")._repr_html_()
    assert "<b>good</b> 75.0 %" in shown
    assert re.findall(r"<summary>(.*?):", shown) == ["mean", "hop 1", "hop 2"]
    assert len(re.findall(r"<span style=", shown)) == 3 * 2
    strengths = re.findall(r"/ ([\d.]+)\)", shown)
    assert strengths[2:4] == ["0.90", "0.10"]  # hop 1, on a scale up to twice an even share, 1


def test_a_notebook_shows_hostile_text_as_text() -> None:
    shown = example("<img src=x onerror=run()> \x1b[31m \u202e", label="<b>")._repr_html_()
    assert "<img" not in shown
    assert "<b>&lt;b&gt;</b>" in shown
    assert not {"\x1b", "\u202e"} & set(shown)


def test_a_notebook_shows_pairs_and_the_first_of_many_texts() -> None:
    assert "a \u2192 b 0.250" in paired("a b", [[0.75, 0.25], [0.1, 0.9]])._repr_html_()
    shown = Predictions([example("a b")] * (MAX_SHOWN + 2))._repr_html_()
    assert shown.count("<details") == MAX_SHOWN
    assert "and 2 more" in shown


def test_the_most_probable_classes_and_no_label_below_a_threshold() -> None:
    prediction = Prediction("Good!", "b", {"a": 0.3, "b": 0.5, "c": 0.2}, ["good"], [(0, 4)], [[1.0]])
    assert prediction.limited(None, None) == prediction
    assert list(prediction.limited(2, None).probabilities.items()) == [("b", 0.5), ("a", 0.3)]
    assert prediction.limited(7, 0.5).label == "b"
    unsure = prediction.limited(1, 0.51)
    assert (unsure.label, unsure.name, unsure.share) == (None, "no label", 0.5)
    assert unsure.to_json()["label"] is None
    assert "no label" in unsure._repr_html_()
    assert Prediction.empty().limited(2, 0.9) == Prediction.empty()


def test_notes_of_a_prediction_without_a_label_are_about_the_most_probable_class() -> None:
    parts = {"attention": {"a": 1.0, "b": 2.0}, "wide": {"a": 0.0, "b": 0.0}}
    prediction = Prediction("Good!", None, {"a": 0.25, "b": 0.75}, ["good"], [(0, 4)], [[1.0]], parts=parts)
    assert notes(prediction)[0].startswith("logit of b ")
