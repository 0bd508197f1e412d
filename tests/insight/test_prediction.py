import json

import pytest
from example_predictions import example, paired

from sentattn.insight.prediction import Prediction

KEYS = ["text", "label", "probabilities", "tokens", "spans", "unknown"]


def test_json_has_all_fields() -> None:
    prediction = Prediction(
        "Good!", "b", {"a": 0.25, "b": 0.75}, ["good", "!"], [(0, 4), (4, 5)], [[0.9, 0.1]], unknown=[1]
    )
    assert json.loads(json.dumps(prediction.to_json())) == {
        "text": "Good!",
        "label": "b",
        "probabilities": {"a": 0.25, "b": 0.75},
        "tokens": ["good", "!"],
        "spans": [[0, 4], [4, 5]],
        "unknown": [1],
        "attention": [[0.9, 0.1]],
    }
    assert list(prediction.to_json()) == [*KEYS, "attention"]


def test_mean_attention_is_the_mean_of_each_column() -> None:
    assert example("a b", [0.5, 0.5], [1.0, 0.0]).mean_attention == [0.75, 0.25]


def test_words_keep_the_case_of_the_text() -> None:
    prediction = example("The END", [0.5, 0.5])
    assert prediction.tokens == ["the", "end"]
    assert prediction.words == ["The", "END"]


def test_rows_of_another_length_than_the_tokens_fail_an_assertion() -> None:
    with pytest.raises(AssertionError):
        example("a b", [0.5, 0.25, 0.25])


def test_pairs_are_a_key_of_the_json_only_where_there_are_any() -> None:
    maps = [[[0.75, 0.25], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]]
    found = json.loads(json.dumps(paired("a b", *maps).to_json()))
    assert list(found) == [*KEYS, "attention", "pairs"]
    assert found["pairs"] == maps
    assert "pairs" not in example("a b").to_json()


@pytest.mark.parametrize("maps", [[[[1.0, 0.0]]], [[[1.0], [1.0]]], [[[0.5, 0.5]] * 2, [[1.0]]]])
def test_a_map_that_is_not_square_over_the_tokens_fails_an_assertion(maps: list[list[list[float]]]) -> None:
    with pytest.raises(AssertionError):
        paired("a b", *maps)
