"""References are fitted and stored as runs; a training, `evaluate`, `compare` and a reference have the same metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from refusals import faults_of, refused
from scipy.sparse import csr_matrix
from tiny import tiny

import sentattn
from sentattn import evaluate
from sentattn import fit as train
from sentattn.compare.comparison import read_comparisons
from sentattn.compare.predictions import add_tables
from sentattn.compare.references import PIPELINES, SETTINGS, LogCountRatio, add_references, fit
from sentattn.compare.report.summaries import curves
from sentattn.run import Run

LINEAR = ("tfidf", "nbsvm")


def test_log_count_ratios_by_hand() -> None:
    counts = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1.0]])
    p, q = np.array([3, 2, 2]) / 7, np.array([1, 2, 2]) / 5  # counts of both classes, smoothed by 1
    scaled = LogCountRatio().fit_transform(csr_matrix(counts), np.array([1, 1, 0]))
    np.testing.assert_allclose(scaled.toarray(), counts * np.log(p / q), rtol=1e-12)


def texts_of(labels: np.ndarray, random: np.random.Generator) -> list[str]:
    """Texts in which a word of their class is frequent."""
    words = ([label if random.random() < 0.6 else random.integers(4) for _ in range(8)] for label in labels)
    return [" ".join(f"w{number}" for number in numbers) for numbers in words]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize(("present", "absent"), [([0, 1], []), ([0, 1, 2, 3], []), ([0, 2], [1])])
def test_probabilities_of_classes(name: str, present: list[int], absent: list[int]) -> None:
    random = np.random.default_rng(0)
    labels = random.choice(present, size=200)
    inputs = dict.fromkeys(("train", "val", "test"), texts_of(labels, random))
    make, classes = partial(PIPELINES[name], **SETTINGS[name]), len(present + absent)
    _, probabilities, _ = fit(make, (1.0,), inputs, dict.fromkeys(inputs, labels), classes=classes)
    for values in probabilities.values():
        np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-12)
        assert (values.argmax(axis=1) == labels).mean() > 0.9
        assert (values[:, absent] == 0).all()


def test_a_package_that_is_missing_is_named(tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refused(lambda: sentattn.leaderboard(tiny_run, reference="tfidf")) == [("reference", "package")]


def test_references_are_runs_on_the_same_rows(tiny_run: Run, tmp_path: Path) -> None:
    [comparison], _ = read_comparisons([tiny_run.path], split="test")
    [found] = add_references(list(LINEAR), [comparison], tmp_path)
    assert {one.name.partition(";")[0]: one.deterministic for one in found.settings} == {
        "structured": False,
        "tfidf": True,
        "nbsvm": True,
    }
    assert all("min_count=2" in one.name and "c=" in one.name for one in found.settings if one.deterministic)
    [again] = add_references(list(LINEAR), [comparison], tmp_path)
    assert len(list(tmp_path.glob("demo/*/*"))) == 2
    assert {one.name for one in again.settings} == {one.name for one in found.settings}


def test_references_change_nothing_else(tiny_run: Run, run_copy: Path, tmp_path: Path) -> None:
    [comparison], _ = read_comparisons([tiny_run.path, run_copy], split="test")
    runs = [replace(run, trials=26, ordered=True) for run in comparison.runs]
    [found] = add_references(["tfidf"], [replace(comparison, runs=runs)], tmp_path)
    [trained] = [setting for setting in found.settings if not setting.deterministic]
    assert trained.notes
    assert trained.runs[0].trials == 26
    assert all("quadratic_kappa" in setting.metrics for setting in found.settings)


def test_each_choice_of_training_rows_has_a_reference(tmp_path: Path) -> None:
    for size, draw in ((60, 0), (60, 1), (80, 0)):
        rows = [f"data.train_size={size}", f"data.train_seed={draw}"]
        train([*tiny(f"output_dir={tmp_path / 'runs'}", "trainer.max_epochs=1"), *rows])
    [comparison], _ = read_comparisons([tmp_path / "runs"], split="test")
    [found] = add_references(["tfidf"], [comparison], tmp_path)
    references = [setting for setting in found.settings if setting.deterministic]
    chosen = [(each.settings["data"]["train_size"], each.settings["data"]["train_seed"]) for each in references]
    assert sorted(chosen) == [(60, 0), (60, 1), (80, 0)]
    assert {each.runs[0].result["rows"]["train"] for each in references} == {60, 80}
    [curve] = curves(references)
    assert list(curve.x) == [60, 80]


def test_a_reference_beside_a_table_of_predictions(tiny_run: Run, tmp_path: Path) -> None:
    [comparison], _ = read_comparisons([tiny_run.path], split="test")
    file, [setting] = tmp_path / "table.csv", comparison.settings
    labels = [comparison.labels[label] for label in setting.rows.labels_N]
    lines = [f"other,{row},{label},{label}" for row, label in zip(setting.rows.row_ids, labels, strict=True)]
    file.write_text("\n".join(["setting,row_id,label,predicted", *lines]))
    [found] = add_references(["tfidf"], add_tables([str(file)], [comparison], "test"), tmp_path)
    assert {each.name.partition(";")[0] for each in found.settings} == {"structured", "other", "tfidf"}


def test_a_damaged_reference_is_fitted_again(tiny_run: Run, tmp_path: Path) -> None:
    [comparison], _ = read_comparisons([tiny_run.path], split="test")
    add_references(["tfidf"], [comparison], tmp_path)
    [stored] = tmp_path.glob("demo/tfidf/*")
    (stored / "predictions.parquet").write_bytes(b"nonsense")
    [found] = add_references(["tfidf"], [comparison], tmp_path)
    assert [path.resolve() for path in tmp_path.glob("demo/tfidf/*")] == [stored.resolve()]
    assert len(found.settings) == 2


def test_other_texts_are_refused(tiny_run: Run, tmp_path: Path) -> None:
    [comparison], _ = read_comparisons([tiny_run.path], split="test")
    comparison.settings[0].runs[0].result["data_fingerprint"] = "0" * 16  # type: ignore[index]
    assert refused(lambda: add_references(["tfidf"], [comparison], tmp_path)) == [("data.path", "conflict")]


EXACT = 1e-9


def compared(path: Path, split: str) -> dict[str, float]:
    """The metrics of a run as `compare` has them."""
    [comparison], _ = read_comparisons([path], split=split)
    [setting] = comparison.leaderboard
    return {f"{split}/{name}": one.value for name, one in setting.metrics.items()}


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_training_an_evaluation_and_a_comparison(tiny_run: Run, tmp_path: Path, split: str) -> None:
    stored = {name: value for name, value in tiny_run.metrics.items() if name.startswith(f"{split}/")}
    output = tmp_path / "metrics.json"
    assert evaluate.main([str(tiny_run.path), f"split={split}", f"output={output}"]) == 0
    written = json.loads(output.read_text())
    assert written.pop("classes") == tiny_run.result["classes"][split]
    assert written == pytest.approx(stored, abs=EXACT)
    found = compared(tiny_run.path, split)
    assert set(found) == {*stored, f"{split}/calibration_error_calibrated"} - {f"{split}/loss"}
    assert {name: value for name, value in stored.items() if name in found} == pytest.approx(
        {name: value for name, value in found.items() if name in stored}, abs=EXACT
    )


def test_a_reference(tiny_run: Run, tmp_path: Path) -> None:
    [comparison], _ = read_comparisons([tiny_run.path], split="test")
    [found] = add_references(["nbsvm"], [comparison], tmp_path)
    [reference] = [one for one in found.settings if one.runs[0].result["model"] == "nbsvm"]
    path = reference.runs[0].run.path
    for split in ("val", "test"):
        stored = {name: value for name, value in Run(path).metrics.items() if name.startswith(f"{split}/")}
        found = compared(path, split)
        assert {name: found[name] for name in stored} == pytest.approx(stored, abs=EXACT)


@pytest.mark.parametrize("name", ["accuracy", "calibration_error"])
def test_a_stored_metric_that_is_not_that_of_the_predictions(run_copy: Path, name: str) -> None:
    result = json.loads((run_copy / "result.json").read_text())
    result["metrics"][f"test/{name}"] += 0.01
    (run_copy / "result.json").write_text(json.dumps(result))
    fault, _ = faults_of(lambda: read_comparisons([run_copy], split="test"))
    assert fault.kind == "damaged"
    assert f"test/{name}" in fault.message
