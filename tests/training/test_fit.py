"""Training from settings to a run directory, on a few rows."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from refusals import fault_of, refused
from tiny import tiny

from sentattn import fit
from sentattn.errors import SettingError
from sentattn.metrics import MAJORITY
from sentattn.run import Run
from sentattn.training.evaluate import evaluate_run

WITHOUT_MOMENTUM = ["optimizer=sgd", "optimizer.nesterov=true", "optimizer.momentum=0"]
"""What only the optimizer itself refuses."""


def test_content_of_the_result(tiny_run: Run) -> None:
    result = tiny_run.result
    assert {"git", "project_git", "versions"} <= result.keys()
    assert (result["status"], result["model"], result["data"], result["seed"]) == ("finished", "structured", "demo", 0)
    assert {"val/accuracy", "test/accuracy", "val/f1_macro", "val/loss", "train/loss"} <= set(result["metrics"])
    assert all(math.isfinite(value) for value in result["metrics"].values())
    assert result["parameters"]["total"] == result["parameters"]["trainable"] > 0
    assert 0 < result["seconds"]["train"] < result["seconds"]["total"]
    assert result["latency_ms"]["one"] > 0
    assert result["tokens_per_second"] > 0


def test_files_of_a_run_directory(tiny_run: Run) -> None:
    # Other tests evaluate the run.
    files = {path.name for path in tiny_run.path.iterdir() if not path.name.startswith("predictions-")}
    assert files == {"config.yaml", "result.json", "metrics.jsonl", "predictions.parquet", "model", "checkpoints"}
    assert {path.name for path in (tiny_run.path / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    assert {path.name for path in (tiny_run.path / "model").iterdir()} == {
        "model.safetensors",
        "config.yaml",
        "tokenizer.json",
        "labels.json",
    }


def test_best_epoch_is_the_best_row_and_is_evaluated_again(tiny_run: Run) -> None:
    rows = [json.loads(line) for line in (tiny_run.path / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2]
    best = max(rows, key=lambda row: (row["val/accuracy"], -row["val/log_loss"]))
    assert tiny_run.result["best_epoch"] == best["epoch"]
    for name in ("val/accuracy", "val/log_loss", "train/loss"):
        assert tiny_run.metrics[name] == pytest.approx(best[name], abs=1e-6)


def test_predictions_are_those_of_the_saved_model(tiny_run: Run) -> None:
    table = pq.read_table(tiny_run.path / "predictions.parquet").to_pylist()
    for split in ("val", "test"):
        rows = [row for row in table if row["split"] == split]
        right = sum(row["label"] == row["predicted"] for row in rows) / len(rows)
        assert tiny_run.metrics[f"{split}/accuracy"] == pytest.approx(right)
        assert all(sum(row["probabilities"]) == pytest.approx(1.0, abs=1e-5) for row in rows)
        assert [row["row"] for row in rows] == sorted({row["row"] for row in rows})


def test_equal_seeds_have_equal_metrics(tiny_run: Run, tmp_path: Path) -> None:
    again = fit(tiny(f"output_dir={tmp_path}"))
    other = fit(tiny(f"output_dir={tmp_path}", "seed=1"))
    assert again.metrics == tiny_run.metrics
    assert other.metrics["train/loss"] != tiny_run.metrics["train/loss"]
    assert again.result["setting"] == other.result["setting"] == tiny_run.result["setting"]


def test_without_test_the_test_set_is_not_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = fit(tiny(f"output_dir={tmp_path}", "test=false", "trainer.max_epochs=1", "ema_decay=null"))
    assert not any(name.startswith("test/") for name in run.metrics)
    assert set(pq.read_table(run.path / "predictions.parquet")["split"].to_pylist()) == {"val"}
    assert "diverged" not in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "unstable",
    [
        ["optimizer.lr=1e30", "scheduler=constant"],
        ["optimizer.lr=5e37", "trainer.max_epochs=1", "data.batch_size=1000"],  # in the last step
    ],
)
def test_a_diverged_training_fails(tmp_path: Path, unstable: list[str]) -> None:
    words = tiny("optimizer=sgd", "trainer.gradient_clip_val=null", *unstable, f"output_dir={tmp_path}")
    assert refused(lambda: fit(words)) == [("trainer.gradient_clip_val", "diverged")]
    [result] = tmp_path.glob("demo/structured/*/result.json")
    failed = json.loads(result.read_text())
    assert failed["status"] == "failed"
    assert "NaN" in failed["error"]
    assert not (result.parent / "model").exists()


def test_denormal_numbers_are_zero_in_a_training(tmp_path: Path) -> None:
    smallest = torch.tensor([2.0**-126])  # half of it is a denormal number
    assert torch.set_flush_denormal(False)
    assert float(smallest * 0.5) > 0
    with pytest.raises(SettingError):
        fit(tiny(f"output_dir={tmp_path}", *WITHOUT_MOMENTUM))
    assert float(smallest * 0.5) == 0


def test_unwritable_output_folder_is_refused_before_reading(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert refused(lambda: fit(tiny(f"output_dir={tmp_path / 'file' / 'out'}"))) == [("output_dir", "unwritable")]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["model.attention.hopps=3"], ("model.attention.hopps", "unknown")),
        (["trainer.accelerator=tpu"], ("trainer", "invalid")),
        (["objective.metric=val/quadratic_kappa"], ("objective.metric", "conflict")),
        (WITHOUT_MOMENTUM, ("optimizer", "conflict")),
        (["optimizer.foreach=true"], ("optimizer", "conflict")),
    ],
)
def test_faulty_settings_leave_no_run(tmp_path: Path, words: list[str], fault: tuple[str, str]) -> None:
    assert refused(lambda: fit(tiny(f"output_dir={tmp_path}", *words))) == [fault]
    assert list(tmp_path.iterdir()) == []


def test_a_string_is_one_setting() -> None:
    assert refused(lambda: fit("modle=mean")) == [("modle", "unknown")]
    assert refused(lambda: fit(["seeds=3"])) == [("seeds", "unsupported")]
    assert refused(lambda: fit(["check=true"])) == [("check", "unsupported")]


@pytest.mark.parametrize(
    ("line", "slot"),
    [
        ("model=transformer model.embedding.size=10 model.encoder.heads=3", "model.encoder"),
        ("model=relation model.attention.score=linear", "model.attention"),
    ],
)
def test_parts_that_do_not_fit_are_refused_before_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, slot: str
) -> None:
    monkeypatch.setattr("sentattn.build.build_data", lambda settings: pytest.fail("data asked for"))
    fault = fault_of(lambda: fit([*line.split(), f"output_dir={tmp_path}"]))
    assert (fault.key, fault.kind) == (slot, "conflict")
    assert re.search(r"[^.]\.$", fault.message), "one full stop"
    assert list(tmp_path.iterdir()) == []


def test_the_loss_of_a_split_does_not_depend_on_its_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loss = ["loss.class_weights=[1,3.5]", "loss.penalty=0.3"]
    run = fit(tiny("data.limit=40", "trainer.max_epochs=1", "test=false", f"output_dir={tmp_path}", *loss))
    assert "negative 1, positive 3.5" in capsys.readouterr().out
    losses = []
    for batch_size in (40, 7, 1):
        settings = {**run.settings, "data": {**run.settings["data"], "batch_size": batch_size}}
        losses.append(evaluate_run(run, settings, "val", "again")[0]["val/loss"])
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
    assert run.metrics["val/loss"] == pytest.approx(losses[0], rel=1e-5)


def test_a_penalty_on_one_hop_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["data.limit=40", "trainer.max_epochs=1", "test=false", f"output_dir={tmp_path}"]
    assert "train/penalty" in fit(tiny(*small, "model=additive", "loss.penalty=0.5")).metrics
    out = capsys.readouterr().out
    assert out.count("loss.penalty=0.5") == 1
    assert "Class weights" not in out


def test_a_class_without_training_rows_cannot_be_balanced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentattn.data.datamodule.TextData.class_counts", {"negative": 9, "positive": 0})
    assert refused(lambda: fit(tiny(f"output_dir={tmp_path}", "loss.class_weights=balanced"))) == [("loss", "conflict")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("optimizer", "scheduler"), [("adamw", "cosine"), ("sgd", "one_cycle"), ("adagrad", "step")])
def test_other_optimizers_and_schedules_train(tmp_path: Path, optimizer: str, scheduler: str) -> None:
    extra = ["trainer.max_epochs=1", "data.limit=40", "test=false", f"optimizer={optimizer}", f"scheduler={scheduler}"]
    run = fit(tiny(f"output_dir={tmp_path}", *extra))
    assert run.result["status"] == "finished"


def test_a_large_loss_is_warned_of_and_keeps_the_columns_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(tiny(f"output_dir={tmp_path}", "optimizer.lr=1e12", "trainer.max_epochs=1"))
    out, err = capsys.readouterr()
    assert "diverged" in err
    [line] = [line for line in out.splitlines() if line.startswith("  loss")]
    assert [float(value) > 1000 for value in line.split()[1:]] == [True, True]


def test_the_majority_is_printed_next_to_the_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "reviews.csv"
    rows = [f"food {i} was {'good' if i % 4 else 'bad'},{'yes' if i % 4 else 'no'}" for i in range(200)]
    table.write_text("\n".join(["text,label", *rows]))
    columns = ["data=table", f"data.train={table}", "data.text=text", "data.label=label"]
    small = ["model=mean", "model.embedding.size=4", "logger=none", "trainer.max_epochs=1", "trainer.accelerator=cpu"]
    # Almost no step: the constant of the head decides.
    run = fit([*columns, *small, "optimizer.lr=1e-9", f"output_dir={tmp_path / 'outputs'}"])
    assert run.result["rows"] == {"train": 162, "val": 18, "test": 20}  # a tenth each time
    assert run.result["majority"] == {"val": pytest.approx(0.75, abs=0.05), "test": pytest.approx(0.75, abs=0.05)}
    [line] = [line for line in capsys.readouterr().out.splitlines() if MAJORITY in line]
    assert [float(word) for word in line.split()[-2:]] == pytest.approx(list(run.result["majority"].values()), abs=1e-4)


def test_a_rare_class_is_learned_with_class_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "reviews.csv"
    rows = [f"the {'bad' if i % 33 == 0 else 'good'} film,{'no' if i % 33 == 0 else 'yes'}" for i in range(990)]
    table.write_text("\n".join(["text,label", *rows]))
    columns = ["data=table", f"data.train={table}", "data.text=text", "data.label=label", "test=false"]
    small = ["model=mean", "model.embedding.size=8", "logger=none", "trainer.accelerator=cpu"]
    common = [*columns, *small, "loss.class_weights=balanced", f"output_dir={tmp_path / 'outputs'}"]
    run = fit([*common, "optimizer.lr=0.05", "trainer.max_epochs=3"])
    assert run.result["metrics"]["val/accuracy"] == 1.0
    assert "every validation row" not in capsys.readouterr().err
    fit([*common, "optimizer.lr=1e-9", "trainer.max_epochs=1"])
    assert "predicts yes for every validation row" in capsys.readouterr().err
