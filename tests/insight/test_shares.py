import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.insight.shares import full_colour, shades, summary, top_words

WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=20).filter(lambda w: sum(w) > 0)


@given(WEIGHTS)
def test_more_weight_is_never_paler_and_shades_stay_within_0_and_1(weights: list[float]) -> None:
    found = shades(weights)
    order = sorted(range(len(weights)), key=weights.__getitem__)
    assert [found[i] for i in order] == sorted(found)
    assert 0 <= min(found) <= max(found) <= 1


def test_the_largest_weight_gets_the_full_colour() -> None:
    assert shades([0.6, 0.3, 0.1]) == pytest.approx([0.9, 0.45, 0.15])  # of three, twice an even share is 2/3
    assert shades([0.5, 0.25, 0.125, 0.125]) == [1.0, 0.5, 0.25, 0.25]


def test_an_even_row_is_pale_but_a_single_word_is_not() -> None:
    assert shades([0.25] * 4) == [0.5] * 4
    assert shades([1.0]) == [1.0]
    assert full_colour([]) == 1.0


def test_leading_words_come_by_weight() -> None:
    assert top_words(["a", "b", "c", "d"], [0.1, 0.5, 0.1, 0.3], 2) == [("b", 0.5), ("d", 0.3)]


def test_words_that_tie_with_the_first_left_out_are_left_out() -> None:
    assert top_words(["a", "b", "c", "d"], [0.2, 0.4, 0.2, 0.2], 3) == [("b", 0.4)]
    assert top_words(["a", "b", "c", "d"], [0.0, 1.0, 0.0, 0.0], 3) == [("b", 1.0)]


def test_a_summary_says_that_words_tie() -> None:
    assert summary(["a", "b", "c", "d"], [0.25, 0.25, 0.25 + 1e-12, 0.25]) == "4 words tie at 0.250"
    assert summary(["a", "b"], [0.75, 0.25]) == "a 0.750 \u00b7 b 0.250"
