"""The size of the words follows the vectors that they start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from choices_of_ones_own import config_folder
from refusals import faults, kinds

from sentattn.config.compose import compose, override
from sentattn.config.groups import get_path

SIZE = "model.embedding.size"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Vectors of four numbers a word; of their first lines alone the size is known."""
    path = tmp_path / "It's v (1).txt"
    path.write_text("the 1 2 3 4\nfilm 5 6 7 8\n")
    return path


@pytest.mark.parametrize("embedding", ["words", "ngrams"])
def test_the_size_is_that_of_the_vectors(file: Path, embedding: str) -> None:
    chosen = f"model/embedding={embedding}"
    assert get_path(compose([chosen]), SIZE) == 100
    assert get_path(compose([chosen, "data.vectors=glove.6B.300d"]), SIZE) == 300
    assert get_path(compose([chosen, f"data.vectors={file}"]), SIZE) == 4
    assert get_path(compose([chosen, f"data.vectors={file}", f"{SIZE}=4"]), SIZE) == 4
    assert get_path(compose([chosen, "data.vectors=null"]), SIZE) == 100
    assert get_path(compose([chosen, "data.vectors=train", f"{SIZE}=30"]), SIZE) == 30


def test_another_size_is_reported_with_all_other_faults(file: Path) -> None:
    words = ["seeed=1", f"data.vectors={file}", f"{SIZE}=50"]
    assert sorted(kinds(words)) == [(SIZE, "conflict"), ("seeed", "unknown")]


def test_missing_vectors_are_reported_with_all_other_faults(file: Path) -> None:
    found = faults(["data.vectors=glove.6b.50d", "seeed=1", f"{SIZE}=50"])
    assert len(found) == 2
    assert "Did you mean 'glove.6B.50d'?" in found[0].message
    assert len(faults([f"data.vectors={file}.gz", "data.limit=0"])) == 2
    file.write_text("the 1\n")
    assert faults([f"data.vectors={file}"])[0].kind == "damaged"


def test_references_to_the_size_follow_it(tmp_path: Path) -> None:
    text = f"_target_: sentattn.models.encoders.lstm.LSTM\nhidden: ${{{SIZE}}}\n"
    folder = config_folder(tmp_path, {"model/encoder/wide": text})
    settings = compose([folder, "model/encoder=wide", "data.vectors=glove.twitter.27B.25d"])
    assert get_path(settings, "model.encoder.hidden") == 25


def test_vectors_of_an_experiment_may_be_replaced(tmp_path: Path) -> None:
    text = "# @package _global_\n# Some.\ndata:\n  vectors: glove.6B.50d\nmodel:\n  embedding:\n    size: 100\n"
    some = [config_folder(tmp_path, {"experiment/some": text}), "experiment=some"]
    assert get_path(compose(some), SIZE) == 50
    assert get_path(compose([*some, "data.vectors=glove.6B.200d"]), SIZE) == 200
    lost = compose([*some, "data.vectors=null"])
    assert get_path(lost, "data.vectors") is None
    assert get_path(lost, SIZE) == 100


def test_an_embedding_without_a_size_takes_no_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = config_folder(tmp_path, {"model/embedding/bytes": "_target_: own_bytes.Bytes\n"})
    text = "class Bytes:\n    def __init__(self, *, num_embeddings, word_dropout: float = 0.0): ...\n"
    (tmp_path / "own_bytes.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for vectors in ("glove.6B.50d", "train"):
        assert kinds([folder, "model/embedding=bytes", f"data.vectors={vectors}"]) == [("data.vectors", "no_effect")]


def test_saved_settings_follow_other_vectors(file: Path) -> None:
    saved = compose([f"data.vectors={file}"])
    assert get_path(override(saved, ["seed=3"]), SIZE) == 4
    assert get_path(override(saved, ["data.vectors=glove.6B.100d"]), SIZE) == 100
    assert get_path(override(saved, [f"data.vectors={file}", "model=mean"]), SIZE) == 4
    file.unlink()
    assert kinds(["seed=3"], lambda words: override(saved, words)) == [("data.vectors", "not_found")]


def test_a_trained_model_is_evaluated_without_the_file(file: Path) -> None:
    saved = compose([f"data.vectors={file}"])
    file.unlink()
    assert get_path(override(saved, ["data.limit=5"], only=["data"]), SIZE) == 4
    assert get_path(override(saved, ["data=imdb"], only=["data"]), SIZE) == 4
