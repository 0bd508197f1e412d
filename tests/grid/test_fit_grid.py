"""`sentattn.fit_grid`: a grid from Python."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from refusals import refused
from tiny import tiny

import sentattn
from sentattn.prediction.model import LoadedRun
from sentattn.train import main


def test_a_run_that_fails_is_named_and_the_others_are_found_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = tiny(f"output_dir={tmp_path}", "trainer.max_epochs=1", "threads=1")
    failing = [*words, "optimizer.lr=0.01,1e30"]
    assert refused(lambda: sentattn.fit_grid(failing)) == [("lr=1e+30, seed=0", "failed")]
    [finished] = [file.parent for file in tmp_path.glob("demo/structured/*/predictions.parquet")]
    capfd.readouterr()
    assert main(["--multirun", *failing]) == 2
    out, err = capfd.readouterr()
    assert "demo, split test" in out, "the others are compared"
    [line] = err.splitlines()
    assert line.startswith("error: missing: lr=1e+30, ")
    assert "NaN" in line
    assert f"log: {tmp_path}" in line
    runs: list[LoadedRun] = []
    typed = [*words, "seeds=2", "optimizer.lr=0.01,0.02"]
    thread = threading.Thread(target=lambda: runs.extend(sentattn.fit_grid(typed)))
    thread.start()
    thread.join()
    out, err = capfd.readouterr()
    assert not err
    assert out.startswith("4 runs: 2 settings, 2 seeds. 1 finished, 0 to be resumed.")
    assert [(run.settings["optimizer"]["lr"], run.settings["seed"]) for run in runs] == [
        (0.01, 0),
        (0.02, 0),
        (0.01, 1),
        (0.02, 1),
    ]
    assert runs[0].path == finished
    assert runs[0].predict("good")[0].label in ("negative", "positive")
    assert not any("\x1b" in (run.path / "log.txt").read_text() for run in runs)


def test_bad_input() -> None:
    assert refused(lambda: sentattn.fit_grid("modle=mean")) == [("modle", "unknown")]


OWN_MEAN = """
from sentattn.models.attention.base import Attended, Attention

class OwnMean(Attention):
    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.out_dim, self.hops = dim, 1
        print("VERSION")

    def forward(self, states_BLD, mask_BL):
        weights_BHL = (mask_BL / mask_BL.sum(1, keepdim=True)).unsqueeze(1).to(states_BLD.dtype)
        return Attended(weights_BHL @ states_BLD, weights_BHL)
"""


@pytest.mark.slow
def test_a_class_of_ones_own_that_was_edited_trains_its_new_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own"
    (folder / "model" / "attention").mkdir(parents=True)
    (folder / "model" / "attention" / "mine.yaml").write_text("_target_: edited_mean.OwnMean\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    setting = [word for word in tiny("threads=1", "model/attention=mine") if not word.startswith("model.attention.")]
    logs = []
    for version in ("of the first", "of the second edition"):
        (tmp_path / "edited_mean.py").write_text(OWN_MEAN.replace("VERSION", version))
        [run] = sentattn.fit_grid([f"--config-dir={folder}", *setting, f"seed={len(logs)}"])
        logs.append((run.path / "log.txt").read_text())
    assert "of the first\n" in logs[0]
    assert "of the second edition\n" in logs[1]
    assert "of the first\n" not in logs[1]


def test_folds_of_each_seed_are_trained_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "reviews.csv"
    texts = [f"it is {word} {i}" for i in range(10) for word in ("good", "bad")]
    table.write_text("text,label\n" + "".join(f"{text},{text.split()[2]}\n" for text in texts))
    words = tiny("data=table", f"data.train={table}", "data.folds=2", "threads=1", f"output_dir={tmp_path}", "seeds=2")
    words = [word for word in words if not word.startswith("data.limit")]
    assert refused(lambda: sentattn.fit(words[:-1])) == [("data.folds", "unsupported")]
    runs = sentattn.fit_grid(words)
    assert [(run.settings["seed"], run.settings["data"]["fold"]) for run in runs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len({run.result["data_fingerprint"] for run in runs}) == 4
    assert len({run.result["setting"] for run in runs}) == 1
    capfd.readouterr()
    assert [run.path for run in sentattn.fit_grid(words)] == [run.path for run in runs]
    assert capfd.readouterr().out == "4 runs: 1 setting, 2 seeds, 2 folds. 4 finished, 0 to be resumed.\n"
    assert main(["-m", *words, "data.fold=1"]) == 0
    assert capfd.readouterr().out.endswith(
        f"compare all folds:\n  python -m sentattn.compare {runs[0].path.parents[1]}\n"
    )
