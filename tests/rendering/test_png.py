"""Pictures of attention: words on their weights, and hops below them."""

import io
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from example_predictions import SENTENCE, clipped, example, paired, peaked
from matplotlib.collections import QuadMesh
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


def test_the_darkest_cell_is_where_the_largest_weight_is() -> None:
    image = pixels([example("one two three", [0.1, 0.1, 0.8])])
    rows, columns = (abs(image - DARKEST).sum(axis=2) < 12).nonzero()
    assert rows.min() > 0.5 * DPI
    assert columns.min() > (png.MARGIN + 0.5) * DPI
    assert columns.max() < 2 * DPI


def test_each_hop_adds_a_row() -> None:
    rows = peaked(10, at=0), peaked(10, at=1)
    one, two = draw([example(SENTENCE, rows[0])]), draw([example(SENTENCE, *rows)])
    assert size(two)[1] - size(one)[1] == pytest.approx(2 * png.HOP_ROW)
    assert {"mean", "hop 1", "hop 2"} <= set(texts(two))
    assert "mean" not in texts(one)


def test_even_weights_are_white() -> None:
    drawn = draw([example("a b c d", [0.25] * 4)])
    assert "all words have the same weight" in texts(drawn)
    assert "darkest" not in " ".join(texts(drawn))
    meshes = drawn.findobj(QuadMesh)
    assert [float(mesh.get_array().max()) for mesh in meshes] == [0.0]


def test_a_row_of_many_hops_is_thin_and_some_are_named() -> None:
    many = draw([example(SENTENCE, *[peaked(10, at=0)] * 30)])
    assert size(many)[1] < 5
    assert [text for text in texts(many) if text.startswith("hop")] == [f"hop {n}" for n in (1, 5, 10, 15, 20, 25, 30)]


def test_long_texts_are_wrapped_and_a_note_says_that_some_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "TALLEST", 3.0)
    drawn = draw([example(words(300))] * 3)
    assert size(drawn)[0] <= png.WIDTH
    assert 3 < size(drawn)[1] < 4
    shown, found = sum(text.startswith("word") for text in texts(drawn)), texts(drawn)
    assert 0 < shown < 300
    assert sum(text.endswith(".html shows all") for text in found) == 1
    monkeypatch.setattr(png, "TALLEST", size(draw([example()]))[1] - png.GAP - 0.2)  # just above the end of the words
    assert not [text for text in texts(draw([example()])) if text.endswith("shows all")]


def test_no_text_is_drawn_without_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    one = size(draw([example()]))[1]
    monkeypatch.setattr(png, "TALLEST", one + 0.2)  # a second text begins above it, and its words below
    found = texts(draw([example()] * 3))
    assert sum("darkest" in text for text in found) == 1
    assert sum(text.endswith(".html shows all") for text in found) == 1


@pytest.mark.parametrize(
    "prediction",
    [
        example("one two", label="a class with a long name"),
        example("one two", label="W" * 500),
        example(f"good {'x' * 5000} film"),
        example(words(40), *[peaked(40, at=i) for i in range(4)], unknown=range(40)),
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


def test_unknown_words_are_named() -> None:
    assert any(text.endswith("vocabulary: two") for text in texts(draw([example("one two three", unknown=[1])])))


def test_the_rest_of_a_long_text_with_an_outlier_is_not_white() -> None:
    count = 200
    row = [0.5] + [0.5 * 2 * i / (count * (count - 1)) for i in range(1, count)]
    image = pixels([example(words(count), row)])[round(0.5 * DPI) :]
    is_strong_orange = (image[..., 0] - image[..., 2]) > 100
    assert is_strong_orange.mean() > 0.1


def test_each_text_says_what_its_darkest_color_is() -> None:
    cut = example(" ".join("x" * 200), [0.5] + [0.5 / 199] * 199)
    found = texts(draw([cut, example("a b", [0.9, 0.1]), example(" ".join("x" * 40), [0.02, 0.03] * 20)]))
    assert [text for text in found if "darkest" in text] == [
        f"white: weight 0, darkest: {weight}" for weight in ("0.01 or more (98 % quantile; largest 0.5)", "1", "0.05")
    ]


def test_letters_are_legible_on_every_cell() -> None:
    drawn = draw([example("one two three", [0.0, 0.1, 0.9])])
    colors = {text.get_text(): text.get_color() for text in drawn.findobj(Text)}
    assert [colors[word] for word in ("one", "two", "three")] == ["black", "black", "white"]
    brightness = [sum(png._colors()(i / 100)[:3]) for i in range(101)]
    assert brightness == sorted(brightness, reverse=True)


def test_a_script_without_a_font_is_drawn_silently(capfd: pytest.CaptureFixture[str]) -> None:
    prediction = example("\u4f60 \u0939\u093f na\u00efve \U0001f600 \x07 $a^ and $10_ \u202e", label="\u4f60 $x$ $")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert picture([prediction]).startswith(b"\x89PNG")
    assert capfd.readouterr() == ("", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert {"na\u00efve", "$", "\u4f60 $x$ $  75.0 %"} <= set(texts(draw([prediction])))


def test_pyplot_is_not_touched() -> None:
    before = "matplotlib.pyplot" in sys.modules
    picture([example()])
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_what_was_not_read_is_three_dots() -> None:
    found = texts(draw([clipped("One two THREE four", [0, 2, 3])]))
    assert {"One", "...", "THREE", "four"} <= set(found)
    assert "two" not in found


def test_pairs_are_on_pages_alone() -> None:
    assert picture([paired()]) == picture([example()])


@pytest.mark.parametrize(
    ("text", "is_reversed"),
    [("\u05d4\u05e1 \u05d4\u05d9 good", True), ("12 \u05d4\u05e1 good", True), ("good \u05d4\u05e1 a", False)],
)
def test_words_stand_in_the_direction_of_the_first_letter(text: str, is_reversed: bool) -> None:
    figure = draw([example(text, [0.2, 0.3, 0.5])])
    places = {drawn.get_text(): drawn.get_position()[0] for drawn in figure.findobj(Text)}
    found = [places[word] for word in text.split()]
    assert found == sorted(found, reverse=is_reversed)
