"""Token-to-token weights on their way from the model to a prediction."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from untrained_runs import classifier

from sentattn.models.attention.structured import Structured
from sentattn.prediction.model import Classifier, LoadedRun, load

TEXTS = ["The food was not good.", "A wonderful evening, never boring!", "ok"]


def next_token(attention: Structured, states_BLD: Tensor, mask_BL: Tensor) -> Tensor:
    """Two heads: in the first each token looks at the next one and the last at the first, in the second all evenly."""
    batch, width = mask_BL.shape
    pairs_BHLL = torch.zeros(batch, 2, width, width)
    for row, count in enumerate(mask_BL.sum(dim=1).tolist()):
        places = torch.arange(count)
        pairs_BHLL[row, 0, places, (places + 1) % count] = 1.0
        pairs_BHLL[row, 1, :count, :count] = 1 / count
    return pairs_BHLL


@pytest.fixture
def with_pairs(tiny_run: LoadedRun, monkeypatch: pytest.MonkeyPatch) -> Classifier:
    """A model whose attention has token-to-token weights."""
    monkeypatch.setattr(Structured, "pairs", next_token)
    return tiny_run.classifier


def test_pairs_are_maps_over_the_tokens_of_each_text(with_pairs: Classifier) -> None:
    for prediction in with_pairs.predict(TEXTS, pairs=True):
        count = len(prediction.tokens)
        assert prediction.pairs is not None
        shifted, even = prediction.pairs
        assert shifted == [[float(s == (t + 1) % count) for s in range(count)] for t in range(count)]
        assert even == [pytest.approx([1 / count] * count)] * count


def test_a_model_is_read_in_a_folder_whose_name_is_not_utf8(tiny_run: LoadedRun, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"run\xff")
    shutil.copytree(tiny_run.path, folder)
    [expected], [found] = tiny_run.predict(TEXTS[:1]), load(folder).predict(TEXTS[:1])
    assert found.probabilities == expected.probabilities


def test_pairs_are_computed_on_request_only(tiny_run: LoadedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Structured, "pairs", lambda *_: pytest.fail("worked out for nothing"))
    assert len(tiny_run.predict(TEXTS)) == 3


def test_texts_with_pairs_are_predicted_one_by_one(with_pairs: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, read = [], []

    def recorded(attention: Structured, states_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        sizes.append(len(mask_BL))
        return next_token(attention, states_BLD, mask_BL)

    def source() -> Iterator[str]:
        for text in TEXTS:
            read.append(text)
            yield text

    monkeypatch.setattr(Structured, "pairs", recorded)
    predictions = with_pairs.stream(source(), pairs=True)
    assert next(predictions).text == TEXTS[0]
    assert read == TEXTS[:1]
    assert [prediction.text for prediction in predictions] == TEXTS[1:]
    assert sizes == [1, 1, 1]


def test_a_model_without_pairs_returns_none(tiny_run: LoadedRun) -> None:
    assert [prediction.pairs for prediction in tiny_run.predict(TEXTS, pairs=True)] == [None] * 3


def test_a_saved_model_normalizes_as_in_training(tmp_path: Path) -> None:
    for line, normalize, alike in (("data.normalize=nfc", "nfc", True), ("data.normalize=null", None, False)):
        classifier("model=mean", line).save(tmp_path)
        loaded = Classifier.load(tmp_path)
        assert loaded.config["text"]["normalize"] == normalize
        one, other = loaded.predict(["The caf\xe9 was good", "The cafe\u0301 was good"])
        assert other.tokens == ["The", "cafe\u0301", "was", "good"]
        assert (one.probabilities == other.probabilities, not other.unknown) == (alike, alike)


@pytest.mark.parametrize("model", ["mean", "structured"])
def test_the_weights_of_ngrams_are_a_row_over_the_tokens(model: str) -> None:
    of_ngrams = classifier(f"model={model}", "model/wide=attended_ngrams")
    torch.nn.init.zeros_(of_ngrams.model.wide.scores.weight)  # type: ignore[union-attr, arg-type]
    [even] = of_ngrams.predict(["not a good film"])
    assert even.ngram_weights == pytest.approx([0.25] * 4)
    torch.nn.init.normal_(of_ngrams.model.wide.scores.weight, std=9.0)  # type: ignore[union-attr, arg-type]
    for prediction in of_ngrams.predict(["not a good film", "a film"]):  # one is padded
        assert list(prediction.rows)[-1] == "n-grams"
        assert sum(prediction.rows["n-grams"]) == pytest.approx(1)
        assert any(prediction.shades(prediction.rows["n-grams"]))
        assert prediction.to_json()["ngram_weights"] == prediction.rows["n-grams"]
    [without] = classifier(f"model={model}", "model/wide=ngrams").predict(["not a good film"])
    assert "n-grams" not in without.rows
    assert "ngram_weights" not in without.to_json()
