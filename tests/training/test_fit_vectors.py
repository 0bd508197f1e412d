"""Trainings that start from pretrained vectors, on a few rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray
from refusals import fault_of, refused
from safetensors.torch import load_file
from tiny import tiny

import sentattn
from sentattn import evaluate, fit
from sentattn.run import Run

WORDS = ["the", "film", "not", "good", "bad", ",", "."]
ROWS = np.random.default_rng(3).normal(size=(len(WORDS), 6)).astype(np.float32)


def table(rows: NDArray[np.float32]) -> str:
    """The vectors of `WORDS` as GloVe writes them."""
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "v.txt"
    path.write_text(table(ROWS))
    return path


def train(vectors: Path | str, outputs: Path, *settings: str) -> Run:
    once = tiny(f"data.vectors={vectors}", f"output_dir={outputs}", "trainer.max_epochs=1", "test=false", *settings)
    return fit([setting for setting in once if setting != "model.embedding.size=8"])


def vectors_of(run: Run) -> torch.Tensor:
    """The vectors of `WORDS` as they are saved with the model."""
    tokenizer = json.loads((run.path / "model" / "tokenizer.json").read_text())["model"]["vocab"]
    weights = load_file(run.path / "model" / "model.safetensors")
    return weights["embedding.vectors.weight"][[tokenizer[word] for word in WORDS]]


def test_frozen_vectors_are_saved_with_the_run(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(file, tmp_path / "outputs", "model.embedding.frozen=true")
    assert "Vectors: v.txt, " in capsys.readouterr().out
    assert torch.equal(vectors_of(run), torch.from_numpy(ROWS))
    assert run.result["parameters"]["trainable"] < run.result["parameters"]["total"]
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    assert config["model"]["embedding"]["size"] == 6
    file.unlink()
    again = sentattn.load(run.path)
    assert len(again.predict(["not a bad film"])) == 1
    assert evaluate.main([f"run={run.path}", "split=val"]) == 0


def test_tuned_vectors_start_from_the_file(file: Path, tmp_path: Path) -> None:
    run = train(
        file, tmp_path / "outputs", "optimizer=sgd", "optimizer.lr=1e-4", "scheduler=constant", "ema_decay=null"
    )
    moved = (vectors_of(run) - torch.from_numpy(ROWS)).abs()
    assert 0 < moved.max() < 0.01


def test_the_setting_does_not_depend_on_the_path_of_the_vectors(file: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.vec"
    moved.write_text(f"{len(WORDS)} 6\n{file.read_text()}")
    changed = tmp_path / "changed.txt"
    changed.write_text(table(ROWS + 1))
    runs = [train(path, tmp_path / "outputs") for path in (file, moved, changed)]
    first, same, other = (run.result["setting"] for run in runs)
    assert first == same != other
    assert runs[0].metrics == runs[1].metrics


def test_faulty_vectors_end_the_training_before_anything_is_written(file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text() + "play 1 2 3\n")
    damaged = fault_of(lambda: train(file, tmp_path / "outputs"))
    assert (damaged.key, damaged.kind) == ("data.vectors", "damaged")
    assert "v.txt, line 8" in damaged.message
    assert refused(lambda: train(tmp_path / "w.txt", tmp_path / "outputs")) == [("data.vectors", "not_found")]
    assert not list((tmp_path / "outputs").iterdir())


def test_random_vectors_that_are_frozen_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(tiny(f"output_dir={tmp_path}", "trainer.max_epochs=1", "test=false", "model.embedding.frozen=true"))
    note = "model.embedding.frozen=true without data.vectors: the words keep the random vectors they start with."
    assert note in capsys.readouterr().out.splitlines()
