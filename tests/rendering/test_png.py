import io
import logging
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from example_predictions import SENTENCE, clipped, example, paired, peaked
from matplotlib.figure import Figure
from PIL import Image

from sentattn.errors import UserError
from sentattn.prediction.prediction import Prediction
from sentattn.rendering import canvas, png
from sentattn.rendering.canvas import DPI
from sentattn.rendering.png import PADDING, Column, columns, lines


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def test_other_weights_give_another_picture_and_the_same_ones_the_same() -> None:
    first = png.picture([example(SENTENCE, peaked(10, at=0))])
    assert first == png.picture([example(SENTENCE, peaked(10, at=0))])
    assert (pixels(first) != pixels(png.picture([example(SENTENCE, peaked(10, at=8))]))).any()


def test_the_darkest_cell_is_where_the_largest_weight_is() -> None:
    image = pixels(png.picture([example("one two three", [0.1, 0.1, 0.8])]))
    dark_orange = (abs(image - [0xA9, 0x44, 0x00]).sum(axis=2) < 12).nonzero()
    below_the_scale = dark_orange[0] > png.TITLE * DPI
    left, right = dark_orange[1][below_the_scale].min(), dark_orange[1][below_the_scale].max()
    assert left > (png.MARGIN + 0.5) * DPI
    assert right < 2 * DPI


def test_each_hop_adds_a_row() -> None:
    one = pixels(png.picture([example(SENTENCE, peaked(10, at=0))]))
    two = pixels(png.picture([example(SENTENCE, peaked(10, at=0), peaked(10, at=1))]))
    assert two.shape[0] - one.shape[0] == pytest.approx(2 * png.HOP_ROW * DPI, abs=1)


def test_long_texts_are_wrapped_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "TALLEST", 3.0)
    text = " ".join(f"word{i}" for i in range(200))
    image = pixels(png.picture([example(text, *(peaked(200, at=i) for i in range(4)))] * 2))
    assert image.shape[1] <= png.WIDTH * DPI
    assert 2 * DPI < image.shape[0] <= 3 * DPI


def test_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "TALLEST", 3.0)
    block = png._block(example(" ".join(f"word{i}" for i in range(300))))
    (fitting,), texts_left_out = png._bounded([block, png._block(example())])
    assert fitting.left_out > 0
    assert fitting.left_out + sum(len(line) for line in fitting.lines) == 300
    assert texts_left_out == 1


def test_maps_of_pairs_stand_below_the_text_and_the_picture_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, more = pixels(png.picture([example()])), pixels(png.picture([paired()]))
    assert more.shape[0] > plain.shape[0] + DPI
    monkeypatch.setattr(png, "TALLEST", 8.0)
    text = " ".join(f"word{i}" for i in range(100))
    many = pixels(png.picture([paired(text, *[[peaked(100, at=3)] * 100] * 3)] * 3))
    assert many.shape[0] <= 8 * DPI
    assert many.shape[1] <= png.WIDTH * DPI


def test_the_darkest_pair_is_where_the_largest_weight_is() -> None:
    maps = [[0.0, 0.0, 1.0], [0.5, 0.3, 0.2], [0.5, 0.5, 0.0]]
    image = pixels(png.picture([paired("one two three", maps)]))
    cells = (abs(image - [0xA9, 0x44, 0x00]).sum(axis=2) < 12)[-round(3 * 0.34 * DPI) - 22 :, : 2 * DPI]
    rows, columns = cells.nonzero()
    assert rows.max() < 22 + 0.34 * DPI
    assert columns.min() > png.MARGIN * DPI + 2 * 0.34 * DPI


def test_long_names_of_classes_fit_next_to_the_scale() -> None:
    narrow = pixels(png.picture([example("one two", [0.5, 0.5])]))
    wide = pixels(png.picture([example("one two", [0.5, 0.5], label="a class with a long name")]))
    assert narrow.shape[1] == png.NARROWEST * DPI
    assert wide.shape[1] > narrow.shape[1]


def texts_drawn(monkeypatch: pytest.MonkeyPatch, predictions: list[Prediction]) -> list[str]:
    """Returns all texts of a picture, from the figure's axes."""
    drawn: list[str] = []

    def record(figure: Figure) -> bytes:
        drawn.extend(text.get_text() for text in figure.axes[0].texts)
        return b""

    monkeypatch.setattr(png, "to_png", record)
    png.picture(predictions)
    return drawn


def test_unknown_words_are_underlined_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = png.picture([example("one two three")])
    assert plain != png.picture([example("one two three", unknown=[1])])
    note = "1 of 3 tokens is not in the model's vocabulary: two"
    assert note in texts_drawn(monkeypatch, [example("one two three", unknown=[1])])


def test_the_rest_of_a_long_text_with_an_outlier_is_not_white() -> None:
    count = 200
    row = [0.5] + [0.5 * 2 * i / (count * (count - 1)) for i in range(1, count)]
    text = " ".join(f"w{i}" for i in range(count))
    image = pixels(png.picture([example(text, row)]))[round(png.TITLE * DPI) :]
    is_colored = (image[..., 0] - image[..., 2]) > 100  # a strong orange
    assert is_colored.mean() > 0.1


def test_the_legend_says_that_the_scale_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    row = [0.5] + [0.5 / 199] * 199
    drawn = texts_drawn(monkeypatch, [example(" ".join("x" * 200), row)])
    assert "darkest from the 98 % quantile; largest 0.5" in drawn
    assert "\u2265 0.01" in drawn
    short = texts_drawn(monkeypatch, [example()])
    assert not [text for text in short if "quantile" in text or "\u2265" in text]


def test_each_text_has_a_scale_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = texts_drawn(monkeypatch, [example("a b", [0.9, 0.1]), example(" ".join("x" * 40), [1 / 40] * 40)])
    assert {"1", "0.05"} <= set(drawn)


def test_a_script_without_a_font_is_drawn_as_boxes_and_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    codes = frozenset(range(0x250))
    monkeypatch.setattr(canvas, "_drawable_characters", lambda weight: codes)
    level = logging.getLogger("matplotlib").level
    prediction = example(
        "\u4f60\u597d \u0939\u093f na\u00efve \U0001f600 \x07 $a^ and $10_ \u202e", label="\u4f60 $x$ $"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert png.picture([prediction]).startswith(b"\x89PNG")
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert logging.getLogger("matplotlib").level == level
    note = "no installed font has CJK, Devanagari, symbols: drawn as boxes; .html shows them"
    assert png.font_note([prediction]) == note
    drawn = texts_drawn(monkeypatch, [prediction])
    assert {note, "\u25a1\u25a1", "na\u00efve", "\u25a1 $x$ $"} <= set(drawn)
    assert png.font_note([example("na\u00efve")]) == ""


def test_pyplot_is_not_touched() -> None:
    before = "matplotlib.pyplot" in sys.modules
    png.picture([example()])
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_columns_are_the_words_of_the_text_and_three_dots_for_what_was_not_read() -> None:
    found = list(columns(clipped("One two THREE four", [0, 2, 3]), widest=9))
    assert [(text, token) for text, _, token in found] == [("One", 0), ("...", None), ("THREE", 1), ("four", 2)]
    assert found[2].width > found[3].width > 2 * PADDING


def test_a_word_wider_than_a_line_is_cut() -> None:
    (column,) = columns(example("x" * 10_000), widest=2)
    assert column.text.startswith("xxxxxxx")
    assert column.text.endswith("\u2026")
    assert 1.8 < column.width <= 2


def test_lines_hold_all_columns_in_order_and_no_more_than_fit() -> None:
    wanted = [Column(str(i), width, i) for i, width in enumerate([3, 3, 3, 5, 1, 9, 2])]
    found = list(lines(wanted, 9))
    assert [column for line in found for column in line] == wanted
    assert [[column.width for column in line] for line in found] == [[3, 3, 3], [5, 1], [9], [2]]


UNWRITABLE = [("plot", "unwritable")]


def keys(error: UserError) -> list[tuple[str, str]]:
    return [(fault.key, fault.kind) for fault in error.faults]


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.html", b"<!DOCTYPE html>"), ("a.PNG", b"\x89PNG")]
)
def test_the_ending_decides_and_nothing_else_is_left(tmp_path: Path, name: str, start: bytes) -> None:
    png.save([example()], tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.htm", "a.png.gz"])
def test_another_ending_is_refused_with_the_legal_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        png.save([example()], tmp_path / name)
    assert keys(caught.value) == [("plot", "unsupported")]
    assert os.listdir(tmp_path) == []


def test_a_close_ending_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Did you mean '\.html'"):
        png.save([example()], tmp_path / "a.htm")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.png cannot be written: there is no folder .*nowhere") as caught:
        png.save([example()], tmp_path / "nowhere" / "a.png")
    assert keys(caught.value) == UNWRITABLE


def test_a_file_instead_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError) as caught:
        png.save([example()], tmp_path / "file" / "a.html")
    assert keys(caught.value) == UNWRITABLE


def test_a_folder_of_the_same_name_is_reported_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.html").mkdir()
    with pytest.raises(UserError) as caught:
        png.save([example()], tmp_path / "a.html")
    assert keys(caught.value) == UNWRITABLE
    assert os.listdir(tmp_path) == ["a.html"]


def test_an_unwritable_folder_is_reported_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(png, "picture", lambda _: pytest.fail("drawn for nothing"))
    with pytest.raises(UserError) as caught:
        png.save([example()], tmp_path / "a.png")
    assert keys(caught.value) == UNWRITABLE


def test_a_failed_drawing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")

    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(png, "page", fail)
    with pytest.raises(UserError) as caught:
        png.save([example()], path)
    assert keys(caught.value) == UNWRITABLE
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.html"]
