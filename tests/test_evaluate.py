"""The evaluate command on a tiny run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentattn import evaluate
from sentattn.run import Run


@pytest.mark.parametrize("split", ["test", "val"])
def test_the_same_data_gives_the_same_figures(tiny_run: Run, tmp_path: Path, split: str) -> None:
    output = tmp_path / "figures.json"
    assert evaluate.main([str(tiny_run.path), f"split={split}", f"output={output}"]) == 0
    figures = json.loads(output.read_text())
    expected = {name: value for name, value in tiny_run.metrics.items() if name.startswith(f"{split}/")}
    assert figures == pytest.approx(expected, abs=1e-5)


def test_figures_are_shown_by_name(tiny_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main([f"run={tiny_run.path}"]) == 0
    assert f"test/accuracy           {tiny_run.metrics['test/accuracy']:.4f}" in capsys.readouterr().out


def test_other_data_are_read_with_the_vocabulary_of_the_run(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "test"):
        for label in ("neg", "pos"):
            folder = tmp_path / "aclImdb" / split / label
            folder.mkdir(parents=True)
            for i in range(10):
                (folder / f"{i}_{1 if label == 'neg' else 9}.txt").write_text(f"unheard words {split} {label} {i} film")
    assert evaluate.main([f"run={tiny_run.path}", "data=imdb", f"data.path={tmp_path / 'aclImdb'}"]) == 0
    assert "on imdb" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "run is missing"),
        (["RUN", "split=train"], "split=train is not legal"),
        (["RUN", "model=mean"], "only data can be changed here"),
        (["RUN", "data=imdb"], "data.path"),
        (["RUN", "data.batchsize=3"], "batch_size"),
        (["RUN", "output=none/none.json"], "cannot be written"),
    ],
)
def test_faults(tiny_run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    assert evaluate.main([word.replace("RUN", str(tiny_run.path)) for word in arguments]) == 2
    assert sentence in capsys.readouterr().err
