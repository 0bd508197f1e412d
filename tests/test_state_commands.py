"""From states of anything to a verdict, a prediction and an evaluation, as a user types it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray
from refusals import assert_refused, faults, refused

import sentattn
from sentattn import evaluate, predict, train
from sentattn.compare.__main__ import main as compare
from sentattn.explore.__main__ import main as explore
from sentattn.export.__main__ import main as export
from sentattn.trained import TrainedRun, load

WIDTH = 4
SETTINGS = [
    *("data=states", "model=states", "logger=none", "trainer.accelerator=cpu", "data.batch_size=20"),
    *("optimizer.lr=0.05", "ema_decay=null", "model.head.dropout=0", "model.embedding.norm=false"),
]
SHORT = [*SETTINGS, "trainer.max_epochs=1"]
LONG = [*SETTINGS, "trainer.max_epochs=8", "model/attention=max"]
TRAIN, TEST = "data.train=train.safetensors", "data.test=test.npz"


def drawn(rows: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64]]:
    """Returns states of which one token, at a random place, says the class of its row by its sign."""
    random = np.random.default_rng(seed)
    lengths, labels = random.integers(3, 9, rows), np.arange(rows) % 2
    mask = np.arange(8) < lengths[:, None]
    states = random.normal(size=(rows, 8, WIDTH)).astype(np.float32)
    place = random.integers(0, lengths)
    states[np.arange(rows), place] = np.where(labels, 8, -8)[:, None] * np.array([1, -1, 1, -1])
    return states, mask, labels


def rows_of(run: TrainedRun, name: str) -> list[dict[str, Any]]:
    """Returns the predictions of an evaluation on test rows."""
    rows: list[dict[str, Any]] = pq.read_table(run.predictions(name), filters=[("split", "=", name)]).to_pylist()
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with states of training rows as bfloat16 and of test rows as an `.npz` with a CSV beside it."""
    folder = tmp_path_factory.mktemp("states")
    states, mask, labels = drawn(200, 0)
    tokens = [[f"patch {token}" for token in range(row.sum())] for row in mask]
    rows = {"label": np.array(["minus", "plus"])[labels].tolist(), "tokens": tokens}
    sentattn.save_states(folder / "train.safetensors", torch.from_numpy(states).bfloat16(), mask, rows)
    states, mask, labels = drawn(60, 1)
    np.savez(folder / "test.npz", states=states, mask=mask)
    (folder / "test.csv").write_text(
        "label,id\n" + "".join(f"{['minus', 'plus'][y]},{i}\n" for i, y in enumerate(labels))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def run(folder: Path) -> TrainedRun:
    assert train.main([*LONG, TRAIN, TEST]) == 0
    [result] = folder.glob("outputs/states/states/*/result.json")
    return load(result.parent)


def test_a_model_learns_from_states(run: TrainedRun) -> None:
    assert run.metrics["test/accuracy"] > 0.95
    assert run.settings["model"]["embedding"]["size"] == WIDTH
    assert run.classifier.labels == ("minus", "plus")


def test_rows_are_predicted_as_they_were_tested(run: TrainedRun, folder: Path) -> None:
    assert predict.main([str(run.path), "input=test.npz", "output=predicted.csv"]) == 0
    with (folder / "predicted.csv").open() as file:
        predicted = list(csv.DictReader(file))
    rows = rows_of(run, "test")
    assert [row["id"] for row in predicted] == [str(row["row"]) for row in rows]
    assert [row["predicted_label"] for row in predicted] == [run.classifier.labels[row["predicted"]] for row in rows]


def test_attention_names_the_tokens(run: TrainedRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert predict.main([str(run.path), "input=train.safetensors", "format=json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["tokens"] == pq.read_table(folder / "train.parquet")["tokens"][0].as_py()
    assert [first["text"][start:end] for start, end in first["spans"]] == first["tokens"]
    assert "cut" not in first


def test_other_states_are_evaluated(run: TrainedRun) -> None:
    metrics = run.evaluate(["data.test=train.safetensors"], name="again")
    assert metrics["test/accuracy"] > 0.95
    assert evaluate.main([str(run.path), TEST, "name=npz"]) == 0
    again, before = (rows_of(run, name) for name in ("npz", "test"))
    np.testing.assert_allclose([row["probabilities"] for row in again], [row["probabilities"] for row in before], 1e-5)


def test_states_are_compared_with_the_mean_and_with_a_probe(
    run: TrainedRun, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main([*SHORT, TRAIN, TEST]) == 0
    assert compare(["outputs", "reference=probe", "insight=10", "report=page.html"]) == 0
    shown = capsys.readouterr()
    assert "states, attention=max" in shown.out
    assert "probe" in shown.out
    assert "warning" not in shown.err
    assert "patch 0" not in (folder / "page.html").read_text()  # of the training rows


def test_insight_reads_the_states_of_each_run(folder: Path, tmp_path: Path) -> None:
    """Runs over other states of the same rows are one comparison, each diagnosed on its own states."""
    states, mask, labels = drawn(60, 1)
    rows = {"label": np.array(["minus", "plus"])[labels].tolist()}
    for name, sign in (("layer1", 1), ("layer2", -1)):
        sentattn.save_states(tmp_path / f"{name}.safetensors", sign * states, mask, rows)
        file = tmp_path / f"{name}.safetensors"
        assert train.main([*LONG, f"data.train={file}", f"output_dir={tmp_path / 'out'}"]) == 0
    assert compare([str(tmp_path / "out"), "insight=5", "format=csv", f"output={tmp_path / 'c.csv'}"]) == 0
    for line in (tmp_path / "c.csv").read_text().splitlines()[1:3]:
        assert "layer" in line
    correct = [pq.read_table(file)["correct"].to_pylist() for file in tmp_path.rglob("insight-*.parquet")]
    assert len(correct) == 2
    assert all(np.mean(values) > 0.5 for values in correct)


def test_texts_have_no_encoder(run: TrainedRun, tmp_path: Path) -> None:
    assert_refused(lambda: run.predict(["a text"]), "text", "unsupported", "input=FILE")
    assert_refused(lambda: run.embed(["a text"]), "text", "unsupported")
    assert explore(["outputs", "open=false"]) == 2
    assert export([str(run.path), f"output={tmp_path / 'onnx'}"]) == 2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["data=states", TRAIN], [("data", "conflict")]),
        (["model=states"], [("data", "conflict")]),
        (["data=states", "model=states"], [("data.train", "missing")]),
        (["data=states", "model=states", TRAIN, "data.vocab_size=9"], [("data.vocab_size", "no_effect")]),
        (["data=states", "model=states", TRAIN, "model/wide=ngrams"], [("model/wide", "conflict")]),
        (["data=states", "model=states", "data.train=tain.safetensors"], [("data.train", "not_found")]),
    ],
)
def test_what_does_not_go_with_states_is_refused_at_once(
    folder: Path, settings: list[str], expected: list[tuple[str, str]]
) -> None:
    assert [(fault.key, fault.kind) for fault in faults(settings)] == expected


@pytest.mark.parametrize(
    ("rows", "key", "kind"),
    [
        ({"label": ["a", "b"] * 9}, "data.train", "conflict"),
        ({"label": ["a", "b"] * 11}, "data.train", "conflict"),
        ({"label": ["a", "b"] * 10, "tokens": [["x"]] * 20}, "data.rows", "type"),
        ({"class": ["a", "b"] * 10}, "", "missing"),
        (None, "data.rows", "missing"),
    ],
)
def test_a_table_of_other_rows_is_refused(
    tmp_path: Path, rows: dict[str, list[str]] | None, key: str, kind: str
) -> None:
    sentattn.save_states(tmp_path / "s.safetensors", *drawn(20, 0)[:2])
    settings = [f"data.train={tmp_path / 's.safetensors'}", f"output_dir={tmp_path}"]
    if rows is not None:
        pd.DataFrame(rows).to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
        settings.append(f"data.rows={tmp_path / 'rows.jsonl'}")
    assert refused(lambda: sentattn.fit([*SHORT, *settings])) == [(key, kind)]


def test_widths_must_agree(folder: Path, run: TrainedRun, tmp_path: Path) -> None:
    states, mask, labels = drawn(20, 0)
    rows = {"label": np.array(["minus", "plus"])[labels].tolist()}
    sentattn.save_states(tmp_path / "narrow.safetensors", states[:, :, :2], mask, rows)
    other = f"data.test={tmp_path / 'narrow.safetensors'}"
    assert_refused(lambda: sentattn.fit([*SHORT, TRAIN, other]), "data.test", "conflict", "width 2")
    assert_refused(lambda: run.evaluate([other]), "data.test", "conflict", "width 2")
    assert_refused(lambda: run.evaluate(["data=demo"]), "data", "conflict")


def test_groups_stay_together(tmp_path: Path) -> None:
    states, mask, labels = drawn(40, 0)
    rows = {
        "label": labels.tolist(),
        "group": [f"speaker {i // 4}" for i in range(40)],
        "text": [f"t{i}" for i in range(40)],
    }
    sentattn.save_states(tmp_path / "s.safetensors", states, mask, rows)
    settings = [f"data.train={tmp_path / 's.safetensors'}", f"output_dir={tmp_path}"]
    fitted = sentattn.fit([*SHORT, *settings])
    assert len({row["group"] for row in rows_of(fitted, "test")}) == 1
    assert [row["row"] for row in rows_of(fitted, "test")] != [36, 37, 38, 39]


def test_rows_with_a_text_are_compared_with_runs_over_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    states, mask, labels = drawn(60, 0)
    rows = {"text": [f"text {i}" for i in range(60)], "label": [f"class {label}" for label in labels]}
    sentattn.save_states("states.safetensors", states, mask, rows)
    assert train.main([*SHORT, "data.train=states.safetensors", "data.name=both"]) == 0
    words = ["data=table", "model=mean", *(setting for setting in SHORT[2:] if "norm" not in setting)]
    assert train.main([*words, "data.train=states.parquet", "data.name=both"]) == 0
    capsys.readouterr()
    assert compare(["outputs", "insight=4", "report=page.html", "reference=tfidf,probe"]) == 0
    tokens = {file.parent.parent.name: pq.read_table(file)["tokens"] for file in Path().rglob("insight-*.parquet")}
    assert {round(count, 6) for count in tokens["mean"].to_pylist()} == {
        2
    }  # of the text, not of what is shown of states
    assert set(tokens) == {"mean", "states"}
    [heading] = [line for line in capsys.readouterr().out.splitlines() if "split test" in line]
    assert heading.startswith("both, split test: 6 rows")
