import numpy as np
import pytest
from example_predictions import SENTENCE, example, paired, peaked
from hypothesis import given, settings
from hypothesis import strategies as st

from sentattn.prediction.prediction import Prediction
from sentattn.rendering import pair_maps
from sentattn.rendering.canvas import canvas
from sentattn.rendering.pair_maps import PairMaps

WIDTH, HEIGHT = 9.7, 14.0


def laid_out(prediction: Prediction, width: float = WIDTH, height: float = HEIGHT) -> PairMaps:
    maps = pair_maps.lay_out(prediction, width=width, height=height)
    assert maps is not None
    return maps


def drawn_texts(maps: PairMaps) -> list[str]:
    _, axes = canvas(maps.width, maps.height)
    pair_maps.draw(axes, maps, 0, 0, right=maps.width)
    return [text.get_text() for text in axes.texts]


def long_text(count: int, heads: int) -> Prediction:
    """Words whose attention grows with their index in every head."""
    total = count * (count + 1) / 2
    row = [(i + 1) / total for i in range(count)]
    return paired(" ".join(f"word{i}" for i in range(count)), *[[row] * count] * heads)


def test_without_pairs_there_is_nothing_to_lay_out() -> None:
    assert pair_maps.lay_out(example(), width=WIDTH, height=HEIGHT) is None


def test_a_single_map_has_the_words_of_the_text_on_both_axes_and_no_number() -> None:
    texts = drawn_texts(laid_out(paired()))
    words = ["Slow", "at", "first", ",", "but", "the", "ending", "is", "GREAT", "."]
    assert [texts.count(word) for word in words] == [2] * 10
    assert "pairs" in texts
    assert pair_maps.EXPLANATION in texts
    assert not [text for text in texts if text.startswith("head")]


def test_each_head_has_its_title() -> None:
    maps = [[peaked(10, at=h)] * 10 for h in range(3)]
    texts = drawn_texts(laid_out(paired(SENTENCE, *maps)))
    assert [text for text in texts if text.startswith("head")] == ["head 1", "head 2", "head 3"]
    assert texts.count("GREAT") == 6


def test_large_cells_bear_their_weight_and_small_ones_do_not() -> None:
    few = [[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25]]
    texts = drawn_texts(laid_out(paired("one two three", few)))
    assert sorted(text for text in texts if text.startswith(".") or text == "1.00") == [
        ".25",
        ".25",
        ".25",
        ".50",
        ".75",
        "1.00",
    ]
    assert not [text for text in drawn_texts(laid_out(long_text(60, 1))) if text.startswith(".")]


@pytest.mark.parametrize("count", [1, 5, 20, 60])
def test_up_to_60_words_all_are_drawn_in_letters_that_can_be_read(count: int) -> None:
    maps = laid_out(long_text(count, 1))
    assert maps.words == [f"word{i}" for i in range(count)]
    assert maps.size >= pair_maps.SMALLEST_SIZE
    assert maps.cell * 72 > maps.size  # letters of one row do not touch those of the next
    assert not maps.notes


def test_of_a_long_text_the_tokens_with_the_most_attention_are_drawn_and_the_rest_is_counted() -> None:
    maps = laid_out(long_text(300, 1))
    kept = len(maps.words)
    assert maps.words == [f"word{i}" for i in range(300 - kept, 300)]
    assert maps.weights_HKK.shape == (1, kept, kept)
    assert maps.weights_HKK[0, 0, -1] == pytest.approx(300 / (300 * 301 / 2))
    (note,) = maps.notes
    assert note.startswith(f"{300 - kept} of 300 tokens, those with the least attention, are not drawn")
    assert note in drawn_texts(maps)


def test_for_many_heads_fewer_tokens_are_drawn_before_a_head_is_left_out() -> None:
    counts = [len(laid_out(long_text(60, heads)).words) for heads in (1, 4, 8, 24)]
    assert counts == sorted(counts, reverse=True)
    assert len(laid_out(long_text(60, 24)).names) == 24
    crowd = laid_out(long_text(60, 200))
    assert len(crowd.names) < 200
    assert f"{200 - len(crowd.names)} more heads are not drawn; .html shows all" in crowd.notes


@given(count=st.integers(1, 90), heads=st.integers(1, 30), height=st.floats(4, 20))
@settings(max_examples=25, deadline=None)
def test_the_maps_stay_within_their_width_and_height(count: int, heads: int, height: float) -> None:
    maps = laid_out(long_text(count, heads), height=height)
    assert maps.columns * maps.map_width + (maps.columns - 1) * pair_maps.BETWEEN <= WIDTH + 1e-9
    assert maps.height <= height
    assert maps.weights_HKK.shape == (len(maps.names), len(maps.words), len(maps.words))


def test_a_word_without_end_is_cut() -> None:
    texts = drawn_texts(laid_out(paired(f"good {'x' * 5000} film", [[1 / 3] * 3] * 3)))
    (cut,) = {text for text in texts if text.startswith("x")}
    assert cut.endswith("\u2026")
    assert len(cut) < 30


def test_even_weights_stay_pale_and_the_largest_weight_gets_the_full_color() -> None:
    assert laid_out(paired("a b c d", [[0.25] * 4] * 4)).limit == 0.5
    assert laid_out(paired("a b c d", [[0.7, 0.1, 0.1, 0.1]] * 4)).limit == pytest.approx(0.7)
    assert np.isclose(laid_out(paired("a", [[1.0]])).limit, 1.0)


def test_tokens_are_ranked_by_the_attention_of_all_queries_and_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_maps, "MAX_TOKENS", 2)
    first = [[0.7, 0.1, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1], [0.0, 0.5, 0.25, 0.25], [0.3, 0.3, 0.3, 0.1]]
    second = [[0.0, 0.0, 0.0, 1.0]] * 4
    assert laid_out(paired("not good at all", first)).words == ["not", "good"]
    assert laid_out(paired("not good at all", first, second)).words == ["not", "all"]
