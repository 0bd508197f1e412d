import io
import logging
import sys
import warnings

import numpy as np
import pytest
from given_predictions import SENTENCE, clipped, example, paired, peaked
from PIL import Image

from sentattn.insight import picture
from sentattn.insight.columns import Column, columns, lines
from sentattn.insight.scale import Scale
from sentattn.insight.sheet import DPI


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def test_other_weights_give_another_picture_and_the_same_ones_the_same() -> None:
    first = picture.picture([example(SENTENCE, peaked(10, at=0))])
    assert first == picture.picture([example(SENTENCE, peaked(10, at=0))])
    assert (pixels(first) != pixels(picture.picture([example(SENTENCE, peaked(10, at=8))]))).any()


def test_the_darkest_cell_is_where_the_largest_weight_is() -> None:
    image = pixels(picture.picture([example("one two three", [0.1, 0.1, 0.8])]))
    dark_orange = (abs(image - [0xA9, 0x44, 0x00]).sum(axis=2) < 12).nonzero()
    below_the_scale = dark_orange[0] > picture.HEAD * DPI
    left, right = dark_orange[1][below_the_scale].min(), dark_orange[1][below_the_scale].max()
    assert left > (picture.MARGIN + 0.5) * DPI
    assert right < 2 * DPI


def test_each_hop_adds_a_row() -> None:
    one = pixels(picture.picture([example(SENTENCE, peaked(10, at=0))]))
    two = pixels(picture.picture([example(SENTENCE, peaked(10, at=0), peaked(10, at=1))]))
    assert two.shape[0] - one.shape[0] == pytest.approx(2 * picture.HOP_ROW * DPI, abs=1)


def test_long_texts_are_wrapped_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "TALLEST", 3.0)
    text = " ".join(f"word{i}" for i in range(200))
    image = pixels(picture.picture([example(text, *(peaked(200, at=i) for i in range(4)))] * 2))
    assert image.shape[1] <= picture.WIDTH * DPI
    assert 2 * DPI < image.shape[0] <= 3 * DPI


def test_what_has_no_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "TALLEST", 3.0)
    block = picture._block(example(" ".join(f"word{i}" for i in range(300))))
    (kept,), texts_left_out = picture._bounded([block, picture._block(example())])
    assert kept.left_out > 0
    assert kept.left_out + sum(len(line) for line in kept.lines) == 300
    assert texts_left_out == 1


def test_maps_of_pairs_stand_below_the_text_and_the_picture_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, more = pixels(picture.picture([example()])), pixels(picture.picture([paired()]))
    assert more.shape[0] > plain.shape[0] + DPI
    monkeypatch.setattr(picture, "TALLEST", 8.0)
    text = " ".join(f"word{i}" for i in range(100))
    many = pixels(picture.picture([paired(text, *[[peaked(100, at=3)] * 100] * 3)] * 3))
    assert many.shape[0] <= 8 * DPI
    assert many.shape[1] <= picture.WIDTH * DPI


def test_the_darkest_pair_is_where_the_largest_weight_is() -> None:
    maps = [[0.0, 0.0, 1.0], [0.5, 0.3, 0.2], [0.5, 0.5, 0.0]]
    image = pixels(picture.picture([paired("one two three", maps)]))
    cells = (abs(image - [0xA9, 0x44, 0x00]).sum(axis=2) < 12)[-round(3 * 0.34 * DPI) - 22 :, : 2 * DPI]
    rows, columns = cells.nonzero()
    assert rows.max() < 22 + 0.34 * DPI
    assert columns.min() > picture.MARGIN * DPI + 2 * 0.34 * DPI


def test_colours_darken_with_the_weight() -> None:
    scale = Scale(0.5)
    colours = [scale._colours(i / 100) for i in range(101)]
    brightness = [sum(colour[:3]) for colour in colours]
    assert brightness == sorted(brightness, reverse=True)
    assert (scale.ink(0.0), scale.ink(0.5)) == ("black", "white")


def test_long_names_of_classes_have_room_beside_the_scale() -> None:
    narrow = pixels(picture.picture([example("one two", [0.5, 0.5])]))
    wide = pixels(picture.picture([example("one two", [0.5, 0.5], label="a class with a long name")]))
    assert narrow.shape[1] == picture.NARROWEST * DPI
    assert wide.shape[1] > narrow.shape[1]


def test_signs_without_a_glyph_and_dollars_are_drawn_without_a_word(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    level = logging.getLogger("matplotlib").level
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture.picture([example("\U0001f600 \U0001f9ff \u4f60\u597d \x07 $a^ and $10_ \u202e", label="\u4f60 $x$ $")])
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert logging.getLogger("matplotlib").level == level


def test_pyplot_is_not_touched() -> None:
    before = "matplotlib.pyplot" in sys.modules
    picture.picture([example()])
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_columns_are_the_words_of_the_text_and_three_dots_for_what_was_not_read() -> None:
    found = columns(clipped("One two THREE four", [0, 2, 3]), len, widest=9)
    assert list(found) == [Column("One", 3, 0), Column("...", 3, None), Column("THREE", 5, 1), Column("four", 4, 2)]


def test_a_word_wider_than_a_line_is_cut() -> None:
    (column,) = columns(example("x" * 10_000), len, widest=8)
    assert column == Column("x" * 7 + "\u2026", 8, 0)


def test_lines_hold_all_columns_in_order_and_no_more_than_fit() -> None:
    wanted = [Column(str(i), width, i) for i, width in enumerate([3, 3, 3, 5, 1, 9, 2])]
    found = list(lines(wanted, 9))
    assert [column for line in found for column in line] == wanted
    assert [[column.width for column in line] for line in found] == [[3, 3, 3], [5, 1], [9], [2]]
