import base64
import json
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from example_predictions import SENTENCE, clipped, example, paired, peaked, pieces

from sentattn.prediction.prediction import Prediction
from sentattn.rendering.html import article, page

HOSTILE = "</p></script><script>alert(1)</script> <img src=x onerror='alert(2)'> \"quoted\" & $title <!-- ]]>"


class Reader(HTMLParser):
    """Reads a page as a browser would: its elements, the texts and the data of the predictions."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data: list[list[dict[str, object]]] = []
        self._into = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag == "p" and attributes.get("class") == "text":
            self._into = "text"
            self.texts.append("")
        elif tag == "script":
            self._into = "json" if attributes.get("type") == "application/json" else ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("p", "script"):
            self._into = ""

    def handle_data(self, data: str) -> None:
        if self._into == "text":
            self.texts[-1] += data
        elif self._into == "json":
            self.data.append(json.loads(data))


def shades_of(source: str) -> list[float]:
    return [float(found) for found in re.findall(r"--w:([0-9.]+)", source)]


@pytest.mark.parametrize("text", [SENTENCE, HOSTILE, "\u201e\u00dcbergro\u00df\u201c \U0001f600\n\n\u4f60\u597d"])
def test_the_text_is_restored_when_the_markup_is_removed(text: str) -> None:
    assert Reader(page([example(text)])).texts == [text]


@pytest.mark.parametrize(("kind", "scripts"), [(example, 1), (paired, 2)])
def test_hostile_texts_and_labels_add_no_element(kind: Callable[[str], Prediction], scripts: int) -> None:
    text = " ".join("x" * len(kind(HOSTILE).tokens))
    harmless, hostile, labeled = (
        Reader(page([one])) for one in (kind(text), kind(HOSTILE), replace(kind(text), label=HOSTILE))
    )
    tags = [[tag for tag, _ in read.elements] for read in (harmless, hostile, labeled)]
    assert tags[0] == tags[1] == tags[2]
    assert len(hostile.data) == scripts


def test_control_characters_become_visible() -> None:
    assert Reader(page([example("a\x00b \x1bc \u202ed")])).texts == ["a\u2400b \u241bc \ufffdd"]


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    source = page([example(), example(SENTENCE, peaked(10, at=1), peaked(10, at=2))])
    source += page([paired()])
    assert "http" not in source
    assert not re.search(r"\b(src|href|import|url|fetch)\b", source)


def test_the_page_shows_the_mean_first_and_each_hop_can_be_selected() -> None:
    rows = [peaked(10, at=0, peak=0.9), peaked(10, at=8, peak=0.3)]
    source = page([example(SENTENCE, *rows)])
    read = Reader(source)
    inputs = [found for tag, found in read.elements if tag == "input"]
    assert [("checked" in found, found["value"]) for found in inputs] == [(True, "0"), (False, "1"), (False, "2")]
    mean, first, second = read.data[0]
    assert [mean["name"], first["name"], second["name"]] == ["mean", "hop 1", "hop 2"]
    assert second["weights"] == pytest.approx(rows[1], rel=0.01)
    assert second["top"] == "GREAT 0.300"
    shown = shades_of(source)
    assert len(shown) == 10
    assert shown[0] == 1.0
    assert shown[8] == pytest.approx((0.1 / 9 + 0.3) / (0.9 + 0.7 / 9), abs=0.001)


def test_switches_of_different_texts_are_apart() -> None:
    source = page([example("a b", [0.5, 0.5], [1.0, 0.0])] * 3)
    assert set(re.findall(r'name="(row-\d+)"', source)) == {"row-0", "row-1", "row-2"}
    assert "Attention on 3 texts" in source
    assert len(Reader(source).data) == 3


def test_unread_words_become_three_dots_without_a_color() -> None:
    source = page([clipped("one two three four", [0, 3])])
    assert "<i> ... </i>" in source
    assert len(shades_of(source)) == 2


def test_bars_are_as_long_as_the_probabilities() -> None:
    prediction = Prediction("a", "y", {"x": 0.125, "y": 0.875}, ["a"], [(0, 1)], [[1.0]])
    assert re.findall(r'style="width:([0-9.]+)%"', page([prediction])) == ["12.5", "87.5"]


def test_each_head_has_its_map_with_its_weights_and_top_pairs() -> None:
    first = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.6, 0.4, 0.0]]
    second = [[0.0, 0.0, 1.0]] * 3
    source = page([paired("not so good", first, second)])
    _, heads = Reader(source).data
    for head, weights in zip(heads, (first, second), strict=True):
        steps = struct.unpack("<9H", base64.b64decode(str(head["weights"])))
        found = [step / 65535 * float(str(head["limit"])) for step in steps]
        assert found == pytest.approx([weight for row in weights for weight in row], abs=1e-5)
    assert heads[0]["top"].split(" \u00b7 ") == ["good \u2192 not 0.600", "good \u2192 so 0.400"]
    assert [head["limit"] for head in heads] == [pytest.approx(0.8), 1.0]
    inputs = [found for tag, found in Reader(source).elements if tag == "input"]
    assert [("checked" in found, found["name"]) for found in inputs] == [(True, "head-0"), (False, "head-0")]
    assert "head 2" in source


def test_one_hop_and_one_head_need_no_switch_and_no_pairs_no_figure() -> None:
    single = page([paired()])
    assert "<input" not in single + page([example()])
    assert "<figure>" in single
    assert "<figure>" not in page([example()])


def test_the_page_of_a_long_text_stays_small() -> None:
    text = " ".join(f"word{i}" for i in range(600))
    even = [[1 / 600] * 600] * 600
    assert len(page([paired(text, even, even)])) < 2_100_000


def test_unknown_words_are_underlined_and_named() -> None:
    source = page([example("fine <b>zzz</b>", unknown=[4])])
    assert re.findall(r'<span class="unknown"[^>]*>([^<]*)</span>', source) == ["zzz"]
    assert "vocabulary: zzz" in source
    assert 'class="note"' not in page([example()])


def test_the_scale_says_where_it_is_cut() -> None:
    count = 200
    row = [0.5] + [0.5 / (count - 1)] * (count - 1)
    source = page([example(" ".join("x" * count), row)])
    assert "98 % quantile; largest 0.5" in source
    assert shades_of(source)[:2] == [1.0, 0.251]


def test_even_weights_are_named_and_shade_nothing() -> None:
    spans = [(0, 1), (2, 3), (4, 5), (6, 7)]
    shown = article(Prediction("a b c d", "x", {"x": 1.0}, [*"abcd"], spans, [[0.25] * 4]))
    assert [piece.shade for piece in shown["pieces"]] == [0.0, None, 0.0, None, 0.0, None, 0.0]
    assert shown["rows"][0]["top"] == "4 words tie at 0.250"
    assert shown["rows"][0]["limit"] is None


def test_a_long_word_is_shown_by_its_start() -> None:
    text = "a " + "x" * 5000
    prediction = Prediction(text, "x", {"x": 1.0}, ["a", "x" * 5000], [(0, 1), (2, 5002)], [[0.2, 0.8]], unknown=[1])
    assert "x" * 100 not in page([prediction])
    assert "5,000 characters" in page([prediction])


def test_a_text_that_is_cut_says_so() -> None:
    whole = Prediction("a b", "x", {"x": 1.0}, ["a", "b"], [(0, 1), (2, 3)], [[0.2, 0.8]])
    cut = Prediction("a b c d", "x", {"x": 1.0}, ["a", "b"], [(0, 1), (2, 3)], [[0.2, 0.8]], unknown=[0])
    assert article(whole)["cut"] == ""
    assert "2 tokens" in article(cut)["cut"]
    assert article(cut)["cut"] not in article(cut)["notes"]
    assert len(article(cut)["notes"]) == 1


def test_the_row_of_ngrams_is_shown_where_the_attention_is_even() -> None:
    prediction = replace(pieces(), attention=[[1 / 7] * 7], ngram_weights=[0.0, 0.1, 0.3, 0.2, 0.1, 0.3, 0.0])
    even, of_ngrams = Reader(page([prediction])).data[0]
    assert (even["top"], even["limit"]) == ("all tokens have the same weight", None)
    assert of_ngrams["name"] == "n-grams"
    assert str(of_ngrams["top"]).startswith("playing 0.400")
    assert of_ngrams["limit"]
