import base64
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentattn.insight.pairs import lead, most_looked_at, packed

WORDS = ["not", "good", "at", "all"]
MAP = [[0.7, 0.1, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1], [0.0, 0.5, 0.25, 0.25], [0.3, 0.3, 0.3, 0.1]]
EVEN = [[0.25] * 4] * 4


def test_the_heaviest_pairs_of_different_tokens_come_by_weight() -> None:
    assert lead(WORDS, [MAP], 2) == "good \u2192 not 0.600 \u00b7 at \u2192 good 0.500"


def test_of_several_heads_each_pair_tells_its_own() -> None:
    assert lead(WORDS, [EVEN, MAP], 1) == "good \u2192 not 0.600 (head 2)"


def test_pairs_that_tie_with_the_first_left_out_are_left_out() -> None:
    assert lead(WORDS, [MAP], 3) == lead(WORDS, [MAP], 2)
    assert lead(WORDS, [EVEN]) == "no pair of words stands out"


def test_a_single_word_has_no_pair() -> None:
    assert lead(["good"], [[[1.0]]]) == "no pair of words stands out"


def test_the_given_weights_stay_as_they_are() -> None:
    before = [list(row) for row in MAP]
    lead(WORDS, [MAP])
    assert before == MAP


def test_tokens_are_ranked_by_what_all_tokens_and_heads_give_them() -> None:
    # Columns of MAP: 1.6, 1.1, 0.75, 0.55; those of the other map: 0, 0, 0, 4.
    assert most_looked_at(np.array([MAP])).tolist() == [0, 1, 2, 3]
    assert most_looked_at(np.array([MAP, [[0.0, 0.0, 0.0, 1.0]] * 4])).tolist() == [3, 0, 1, 2]


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.floats(0, 1), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_packed_weights_are_those_given_to_a_step(weights: list[list[float]]) -> None:
    count = len(weights)
    found = packed(weights)
    steps = struct.unpack(f"<{count * count}H", base64.b64decode(found["weights"]))
    assert found["full"] >= max(map(max, weights))
    unpacked = [step / 65535 * found["full"] for step in steps]
    assert unpacked == pytest.approx([weight for row in weights for weight in row], abs=0.51 / 65535)


def test_a_packed_map_is_small() -> None:
    assert len(packed([[1 / 600] * 600] * 600)["weights"]) == 600 * 600 * 2 * 4 / 3
