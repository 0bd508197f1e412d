"""Pictures of attention: words on their weights, hops below them, and maps of pairs."""

import io
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from example_predictions import SENTENCE, clipped, example, paired, peaked
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from sentattn.prediction.prediction import Prediction
from sentattn.rendering import png
from sentattn.rendering.png import DPI, draw, picture

DARKEST = [0xA9, 0x44, 0x00]


def pixels(predictions: list[Prediction]) -> np.ndarray:
    with Image.open(io.BytesIO(picture(predictions))) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def texts(figure: Figure) -> list[str]:
    """All texts of a drawing, tick labels too."""
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def size(figure: Figure) -> tuple[float, float]:
    width, height = figure.get_size_inches()
    return float(width), float(height)


def words(count: int) -> str:
    return " ".join(f"word{i}" for i in range(count))


def growing(count: int, heads: int) -> Prediction:
    """Words whose attention grows with their index in every head."""
    row = [(i + 1) / (count * (count + 1) / 2) for i in range(count)]
    return paired(words(count), *[[row] * count] * heads)


def labels(prediction: Prediction) -> list[str]:
    """The words on the axes of the first map."""
    axes = next(axes for axes in draw([prediction]).axes[0].child_axes if axes.get_yticklabels())
    across = [label.get_text() for label in axes.get_xticklabels()]
    assert across == [label.get_text() for label in axes.get_yticklabels()]
    return across


def test_the_same_weights_give_the_same_picture_and_others_another_one() -> None:
    first = picture([example(SENTENCE, peaked(10, at=0))])
    assert first == picture([example(SENTENCE, peaked(10, at=0))])
    assert first != picture([example(SENTENCE, peaked(10, at=8))])


def test_the_darkest_cell_is_where_the_largest_weight_is() -> None:
    image = pixels([example("one two three", [0.1, 0.1, 0.8])])
    rows, columns = (abs(image - DARKEST).sum(axis=2) < 12).nonzero()
    below_the_scale = rows > 0.5 * DPI
    assert columns[below_the_scale].min() > (png.MARGIN + 0.5) * DPI
    assert columns[below_the_scale].max() < 2 * DPI


def test_a_pdf_has_the_fonts_that_publishers_accept() -> None:
    content = picture([example(SENTENCE, peaked(10, at=0))], "pdf")
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


def test_each_hop_adds_a_row() -> None:
    rows = peaked(10, at=0), peaked(10, at=1)
    one, two = draw([example(SENTENCE, rows[0])]), draw([example(SENTENCE, *rows)])
    assert size(two)[1] - size(one)[1] == pytest.approx(2 * png.HOP_ROW)
    assert {"mean", "hop 1", "hop 2"} <= set(texts(two))
    assert "mean" not in texts(one)


def test_a_row_of_many_hops_is_thin_and_some_are_named() -> None:
    many = draw([example(SENTENCE, *[peaked(10, at=0)] * 30)])
    assert size(many)[1] < 5
    assert [text for text in texts(many) if text.startswith("hop")] == [f"hop {n}" for n in (1, 5, 10, 15, 20, 25, 30)]


def test_long_texts_are_wrapped_and_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "TALLEST", 3.0)
    drawn = draw([example(words(300))] * 3)
    assert size(drawn)[0] <= png.WIDTH
    assert 3 < size(drawn)[1] < 4
    shown, found = sum(text.startswith("word") for text in texts(drawn)), texts(drawn)
    assert 0 < shown < 300
    assert any(text.startswith(f"{300 - shown} more tokens") for text in found)
    assert any(text.startswith("2 more texts") for text in found)


@pytest.mark.parametrize(
    "prediction",
    [
        example("one two", label="a class with a long name"),
        example("one two", label="W" * 500),
        example(f"good {'x' * 5000} film"),
        example(words(40), *[peaked(40, at=i) for i in range(4)], unknown=range(40)),
        paired(f"good {'W' * 5000} film", [[1 / 3] * 3] * 3),
        growing(60, 1),
        growing(60, 8),
        growing(5, 30),
        Prediction.empty(),
        replace(example(), probabilities={f"class number {i}": 0.1 for i in range(9)} | {"positive": 0.1}),
    ],
)
def test_every_text_is_inside_of_the_picture(prediction: Prediction) -> None:
    drawn = draw([prediction])
    drawn.draw_without_rendering()
    for text in drawn.findobj(Text):
        if text.get_text() and text.get_visible():
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= drawn.bbox.width, text.get_text()
            assert box.y1 <= drawn.bbox.height, text.get_text()


def test_unknown_words_are_underlined_and_named() -> None:
    plain, unknown = draw([example("one two three")]), draw([example("one two three", unknown=[1])])
    assert len(unknown.axes[0].lines) == len(plain.axes[0].lines) + 1
    assert any(text.endswith("vocabulary: two") for text in texts(unknown))


def test_the_rest_of_a_long_text_with_an_outlier_is_not_white() -> None:
    count = 200
    row = [0.5] + [0.5 * 2 * i / (count * (count - 1)) for i in range(1, count)]
    image = pixels([example(words(count), row)])[round(0.5 * DPI) :]
    is_strong_orange = (image[..., 0] - image[..., 2]) > 100
    assert is_strong_orange.mean() > 0.1


def test_the_legend_says_that_the_scale_is_cut() -> None:
    cut = texts(draw([example(" ".join("x" * 200), [0.5] + [0.5 / 199] * 199)]))
    assert "\u2265 0.01" in cut
    assert any("98 % quantile, largest 0.5" in text for text in cut)
    assert not [text for text in texts(draw([example()])) if "quantile" in text or "\u2265" in text]


def test_each_text_has_a_scale_of_its_own() -> None:
    drawn = texts(draw([example("a b", [0.9, 0.1]), example(" ".join("x" * 40), [1 / 40] * 40)]))
    assert {"1", "0.05"} <= set(drawn)


def test_letters_are_legible_on_every_cell() -> None:
    assert [png._text_color(strength) for strength in (0.0, 1.0, 1.8)] == ["black", "white", "white"]
    brightness = [sum(png._colors()(i / 100)[:3]) for i in range(101)]
    assert brightness == sorted(brightness, reverse=True)


def test_a_script_without_a_font_is_named_in_a_note(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(png, "_drawable", lambda: frozenset(range(0x250)))
    prediction = example("\u4f60 \u0939\u093f na\u00efve \U0001f600 \x07 $a^ and $10_ \u202e", label="\u4f60 $x$ $")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert picture([prediction]).startswith(b"\x89PNG")
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    note = "no installed font has CJK, DEVANAGARI, symbols; .html shows all characters"
    assert png.font_note([prediction]) == note
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert {note, "na\u00efve", "\u4f60 $x$ $"} <= set(texts(draw([prediction])))
    monkeypatch.undo()
    assert png.font_note([example("na\u00efve \u03b1\u03b2 \u0416\u0437 \u201equoted\u201c \u2026 \u2192")]) == ""


def test_pyplot_is_not_touched() -> None:
    before = "matplotlib.pyplot" in sys.modules
    picture([example()])
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_what_was_not_read_is_three_dots() -> None:
    found = texts(draw([clipped("One two THREE four", [0, 2, 3])]))
    assert {"One", "...", "THREE", "four"} <= set(found)
    assert "two" not in found


def test_maps_of_pairs_are_below_the_text_with_its_words_on_both_axes() -> None:
    assert size(draw([paired()]))[1] > size(draw([example()]))[1] + 1
    assert labels(paired()) == ["Slow", "at", "first", ",", "but", "the", "ending", "is", "GREAT", "."]
    for maps, heads in ((1, []), (3, ["head 1", "head 2", "head 3"])):
        drawn = draw([paired(SENTENCE, *[[peaked(10, at=h)] * 10 for h in range(maps)])])
        assert [text for text in texts(drawn) if text.startswith("head")] == heads


def test_the_darkest_pair_is_where_the_largest_weight_is() -> None:
    image = pixels([paired("one two three", [[0.0, 0.0, 1.0], [0.5, 0.3, 0.2], [0.5, 0.5, 0.0]])])
    rows, columns = (abs(image - DARKEST).sum(axis=2) < 12)[-round(3 * 0.34 * DPI) - 22 :, : 2 * DPI].nonzero()
    assert rows.max() < 22 + 0.34 * DPI
    assert columns.min() > png.MARGIN * DPI + 2 * 0.34 * DPI


def test_large_cells_bear_their_weight_and_small_ones_do_not() -> None:
    found = texts(draw([paired("one two three", [[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25]])]))
    assert sorted(text for text in found if text[0] == "." and text[1:]) == [".25", ".25", ".25", ".50", ".75"]
    assert "1.00" in found
    assert not [text for text in texts(draw([growing(60, 1)])) if text.startswith(".")]


@pytest.mark.parametrize("count", [1, 5, 20, 60])
def test_of_up_to_60_words_all_are_on_the_axes(count: int) -> None:
    assert labels(growing(count, 1)) == [f"word{i}" for i in range(count)]


def test_of_a_long_text_the_tokens_with_the_most_attention_are_drawn_and_the_rest_is_counted() -> None:
    kept = labels(growing(300, 1))
    assert kept == [f"word{i}" for i in range(300 - len(kept), 300)]
    start = f"{300 - len(kept)} of 300 tokens, those with the least attention, are not drawn"
    assert any(text.startswith(start) for text in texts(draw([growing(300, 1)])))


def test_for_many_heads_fewer_tokens_are_drawn_before_a_head_is_left_out() -> None:
    counts = [len(labels(growing(60, heads))) for heads in (1, 4, 8, 24)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] >= 12
    found = texts(draw([growing(10, 30)]))
    assert "head 24" in found
    assert "head 25" not in found
    assert any(text.startswith("6 more heads") for text in found)


def test_even_weights_stay_pale_and_the_largest_weight_gets_the_full_color() -> None:
    for maps, limit in (([[0.25] * 4] * 4, "0.5"), ([[0.7, 0.1, 0.1, 0.1]] * 4, "0.7")):
        *_, scale = [axes for axes in draw([paired("a b c d", maps)]).axes[0].child_axes if not axes.get_yticklabels()]
        assert [label.get_text() for label in scale.get_xticklabels()][-1] == limit


def test_tokens_are_ranked_by_the_attention_of_all_queries_and_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "MAX_TOKENS", 2)
    first = [[0.7, 0.1, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1], [0.0, 0.5, 0.25, 0.25], [0.3, 0.3, 0.3, 0.1]]
    assert labels(paired("not good at all", first)) == ["not", "good"]
    assert labels(paired("not good at all", first, [[0.0, 0.0, 0.0, 1.0]] * 4)) == ["not", "all"]
