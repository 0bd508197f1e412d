"""The evaluate command on a tiny run."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import yaml
from tiny import tiny

import sentattn
from sentattn import evaluate
from sentattn.data.datamodule import TextData
from sentattn.run import Run
from sentattn.training.fit import fit


@pytest.mark.parametrize("split", ["test", "val"])
def test_the_same_data_gives_the_same_metrics(tiny_run: Run, tmp_path: Path, split: str) -> None:
    output = tmp_path / "metrics.json"
    assert evaluate.main([str(tiny_run.path), f"split={split}", f"output={output}"]) == 0
    metrics = json.loads(output.read_text())
    expected = {name: value for name, value in tiny_run.metrics.items() if name.startswith(f"{split}/")}
    assert metrics == pytest.approx(expected, abs=1e-5)


def test_metrics_are_shown_by_name(tiny_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main([f"run={tiny_run.path}"]) == 0
    assert f"test/accuracy           {tiny_run.metrics['test/accuracy']:.4f}" in capsys.readouterr().out


def reviews(folder: Path, **counts: int) -> Path:
    """A folder of reviews laid out as IMDB's: so many of `neg` and of `pos` in each split."""
    for split in ("train", "test"):
        for label, count in counts.items():
            (folder / split / label).mkdir(parents=True)
            for i in range(count):
                file = folder / split / label / f"{i}_{1 if label == 'neg' else 9}.txt"
                file.write_text(f"unheard words {split} {label} {i} film")
    return folder


def test_other_data_are_read_with_the_vocabulary_of_the_run(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = reviews(tmp_path / "aclImdb", neg=10, pos=10)
    assert evaluate.main([f"run={tiny_run.path}", "data=imdb", f"data.path={folder}"]) == 0
    assert "on imdb" in capsys.readouterr().out


@pytest.mark.parametrize("saved", ["nfc", None, "before"])
def test_words_are_normalized_as_in_the_training(
    saved: str | None, tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(TextData, "prepare", lambda self, *_, **__: read.append(self.normalize) or 1 / 0)
    shutil.copytree(tiny_run.path, tmp_path / "run")
    config = tmp_path / "run/model/config.yaml"
    saved_settings = yaml.safe_load(config.read_text())
    saved_settings["text"]["normalize"] = saved
    if saved == "before":  # the setting was added
        del saved_settings["text"]["normalize"]
    config.write_text(yaml.safe_dump(saved_settings))
    folder = reviews(tmp_path / "aclImdb", neg=1, pos=1)
    with pytest.raises(ZeroDivisionError):
        evaluate.main([f"run={tmp_path / 'run'}", "data=imdb", f"data.path={folder}"])
    assert read == [None if saved == "before" else saved]


def test_class_weights_stay_those_of_the_training(tmp_path: Path) -> None:
    many_neg, many_pos = reviews(tmp_path / "a", neg=40, pos=10), reviews(tmp_path / "b", neg=4, pos=16)
    weighted = ["loss.class_weights=balanced", "loss.label_smoothing=0", "trainer.max_epochs=1", "data.val_size=10"]
    run = fit(tiny(*weighted, "data=imdb", f"data.path={many_neg}", f"output_dir={tmp_path / 'out'}"))
    output = tmp_path / "metrics.json"
    assert evaluate.main([str(run.path), f"data.path={many_pos}", f"output={output}"]) == 0

    def loss(rows: list[tuple[str, int]], weights: tuple[float, float]) -> float:
        predictions = sentattn.load(run.path).predict([text for text, _ in rows])
        chances = [list(one.probabilities.values())[label] for one, (_, label) in zip(predictions, rows, strict=True)]
        total = sum(-weights[label] * math.log(chance) for chance, (_, label) in zip(chances, rows, strict=True))
        return total / sum(weights[label] for _, label in rows)

    files = sorted((many_pos / "test").rglob("*.txt"))
    rows = [(file.read_text(), int(file.parent.name == "pos")) for file in files]
    # 32 negative and 8 positive rows are left to train on: 40 / (2 x 32) and 40 / (2 x 8)
    assert json.loads(output.read_text())["test/loss"] == pytest.approx(loss(rows, (0.625, 2.5)), rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "run is missing"),
        (["RUN", "split=train"], "split must be"),
        (["RUN", "model=mean"], "model cannot be changed"),
        (["RUN", "data=imdb"], "data.path"),
        (["RUN", "data.batchsize=3"], "batch_size"),
        (["RUN", "output=none/none.json"], "cannot be written"),
    ],
)
def test_faults(tiny_run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    assert evaluate.main([word.replace("RUN", str(tiny_run.path)) for word in arguments]) == 2
    assert sentence in capsys.readouterr().err
