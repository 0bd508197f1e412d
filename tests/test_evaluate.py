"""The evaluate command on a tiny run."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from refusals import refused
from tiny import tiny

import sentattn
from sentattn import evaluate, fit
from sentattn.compare.__main__ import main as compare
from sentattn.compare.comparison import read_comparisons
from sentattn.data.datamodule import TextData
from sentattn.prediction.model import LoadedRun
from sentattn.run import yaml_text
from sentattn.training.evaluate import class_lines


@pytest.mark.parametrize("split", ["test", "val"])
def test_the_same_data_gives_the_same_metrics(tiny_run: LoadedRun, tmp_path: Path, split: str) -> None:
    output = tmp_path / "metrics.json"
    assert evaluate.main([str(tiny_run.path), f"split={split}", f"output={output}"]) == 0
    metrics = json.loads(output.read_text())
    classes, labels = metrics.pop("classes"), tiny_run.classifier.labels
    assert classes == tiny_run.result["classes"][split]
    counts = [[classes[true]["predicted"].get(other, 0) for other in labels] for true in labels]
    assert sentattn.load(tiny_run.path).confusion_matrix(split).tolist() == counts
    expected = {name: value for name, value in tiny_run.metrics.items() if name.startswith(f"{split}/")}
    assert metrics == pytest.approx(expected, abs=1e-5)


def test_from_python_as_from_the_command(
    tiny_run: LoadedRun, run_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, output = table(tmp_path / "other.csv", "positive", "negative", "positive"), tmp_path / "metrics.json"
    metrics = sentattn.load(run_copy).evaluate(typed)
    printed = capsys.readouterr().out
    predictions = (run_copy / "predictions-other-test.parquet").read_bytes()
    assert evaluate.main([str(run_copy), *typed, f"output={output}"]) == 0
    assert json.loads(output.read_text()).items() > metrics.items()
    assert printed.splitlines()[-len(metrics) :] == capsys.readouterr().out.splitlines()[-len(metrics) :]
    assert (run_copy / "predictions-other-test.parquet").read_bytes() == predictions
    assert sentattn.load(run_copy).evaluate("data.batch_size=7", split="val", name="again").keys() >= {"val/accuracy"}
    assert (run_copy / "predictions-again.parquet").is_file()


def test_another_split_in_python_is_refused(tiny_run: LoadedRun) -> None:
    assert refused(lambda: sentattn.load(tiny_run.path).evaluate(split="train")) == [("split", "range")]


def test_metrics_are_printed(tiny_run: LoadedRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main([f"run={tiny_run.path}"]) == 0
    printed = capsys.readouterr().out
    assert f"test/accuracy           {tiny_run.metrics['test/accuracy']:.4f}" in printed
    assert f"{tiny_run.result['classes']['test']['positive']['recall']:.4f}" in printed


def test_a_split_without_predictions_has_no_confusion_matrix(tiny_run: LoadedRun) -> None:
    assert refused(lambda: sentattn.load(tiny_run.path).confusion_matrix("reviews")) == [("split", "not_found")]


def test_of_many_classes_those_with_the_lowest_f1_are_printed() -> None:
    classes = {f"class {n}": {"rows": 2, "precision": 1, "recall": 1, "f1": n / 20, "predicted": {}} for n in range(20)}
    lines = class_lines(classes, "test")
    assert [f"class {n} " in "".join(lines) for n in range(20)] == [n < 10 for n in range(20)]
    assert max(map(len, lines)) <= 80


def reviews(folder: Path, **counts: int) -> Path:
    """A folder of reviews laid out as IMDB's: so many of `neg` and of `pos` in each split."""
    for split in ("train", "test"):
        for label, count in counts.items():
            (folder / split / label).mkdir(parents=True)
            for i in range(count):
                file = folder / split / label / f"{i}_{1 if label == 'neg' else 9}.txt"
                file.write_text(f"unheard words {split} {label} {i} film")
    return folder


@pytest.mark.parametrize("saved", ["nfc", None, "before"])
def test_words_are_normalized_as_in_the_training(
    saved: str | None, run_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(TextData, "prepare", lambda self, *_, **__: read.append(self.normalize) or 1 / 0)
    config = run_copy / "model" / "config.yaml"
    saved_settings = yaml.safe_load(config.read_text())
    saved_settings["text"]["normalize"] = saved
    if saved == "before":  # the setting was added
        del saved_settings["text"]["normalize"]
    config.write_text(yaml_text(saved_settings))
    folder = reviews(tmp_path / "aclImdb", neg=1, pos=1)
    with pytest.raises(ZeroDivisionError):
        evaluate.main([f"run={run_copy}", "data=imdb", f"data.path={folder}"])
    assert read == [None if saved == "before" else saved]


def test_predictions_on_other_data_are_written_and_compared(
    tiny_run: LoadedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [tmp_path / "outputs" / name for name in "ab"]
    for run in runs:
        shutil.copytree(tiny_run.path, run)
    result = json.loads((runs[1] / "result.json").read_text())
    (runs[1] / "result.json").write_text(json.dumps(result | {"seed": result["seed"] + 1}))
    folder, output = reviews(tmp_path / "aclImdb", neg=10, pos=10), tmp_path / "metrics.json"
    for run in runs:
        assert evaluate.main([str(run), "data=imdb", f"data.path={folder}", f"output={output}", "name=films"]) == 0
    own, other = (pq.read_table(runs[0] / f"predictions{name}.parquet") for name in ("", "-films"))
    assert other.schema == own.schema
    assert (other.num_rows, set(other["split"].to_pylist())) == (20, {"films"})
    [comparison], faults = read_comparisons([tmp_path / "outputs", tiny_run.path], split="films")
    assert [fault.kind for fault in faults] == ["missing"]  # this run was not evaluated on these rows
    [setting] = comparison.leaderboard
    expected = {name.removeprefix("test/"): value for name, value in json.loads(output.read_text()).items()}
    del expected["loss"], expected["classes"]
    assert {name: setting.metrics[name].value for name in expected} == pytest.approx(expected, abs=1e-9)
    assert "on imdb" in capsys.readouterr().out
    assert compare([str(tmp_path / "outputs"), "split=films", f"report={tmp_path / 'report.html'}"]) == 0
    assert "films, by models of demo: 20 rows" in capsys.readouterr().out


def table(file: Path, *labels: str) -> list[str]:
    """Writes a table with a row for each label; returns the settings that name it."""
    file.parent.mkdir(exist_ok=True)
    file.write_text("text,label\n" + "".join(f"a film {number},{label}\n" for number, label in enumerate(labels)))
    return ["data=table", f"data.test={file}", "data.text=text", "data.label=label"]


def test_predictions_of_other_rows_are_not_overwritten(run_copy: Path, tmp_path: Path) -> None:
    run = sentattn.load(run_copy)
    first = table(tmp_path / "a" / "my.t.csv", "positive")
    second = table(tmp_path / "b" / "my.t.csv", "positive", "negative")
    run.evaluate(first)
    written = run_copy / "predictions-my.t-test.parquet"
    before = written.read_bytes()
    assert refused(lambda: run.evaluate(second)) == [("name", "conflict")]
    assert written.read_bytes() == before
    run.evaluate(first)
    run.evaluate(second, name="second")
    table(tmp_path / "a" / "my.t.csv", "negative")  # the same text
    assert refused(lambda: run.evaluate(first)) == [("name", "conflict")]
    written.write_bytes(b"damaged")
    run.evaluate(first)


def test_the_files_of_a_run_are_no_output(run_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run_copy / "result.json").read_bytes()
    assert evaluate.main([str(run_copy), f"output={run_copy / 'result.json'}"]) == 2
    assert compare([str(run_copy), "format=csv", f"output={run_copy / 'result.json'}"]) == 2
    assert (run_copy / "result.json").read_bytes() == before


def test_each_table_has_a_name_where_the_data_of_the_run_have_one(run_copy: Path, tmp_path: Path) -> None:
    config = run_copy / "config.yaml"
    settings = yaml.safe_load(config.read_text())
    own = {"name": "mine", "_target_": "sentattn.data.datasets.table.Table", "train": "none.csv"}
    config.write_text(yaml_text(settings | {"data": {**settings["data"], **own, "text": "text", "label": "label"}}))
    for month in ("may", "june"):
        sentattn.load(run_copy).evaluate(table(tmp_path / f"{month}.csv", "positive")[1:2])
    sentattn.load(run_copy).evaluate([*table(tmp_path / "july.csv", "positive"), "data.name=summer"])
    written = {file.name for file in run_copy.glob("predictions-*")}
    assert written >= {f"predictions-{name}-test.parquet" for name in ("may", "june", "summer")}


def test_a_run_that_cannot_be_written_is_evaluated(
    tiny_run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LoadedRun, "write_predictions", refuse)
    assert evaluate.main([f"run={tiny_run.path}"]) == 0
    out, err = capsys.readouterr()
    assert f"{tiny_run.metrics['test/accuracy']:.4f}" in out
    assert "Permission denied" in err


def test_class_weights_are_those_of_the_training(tmp_path: Path) -> None:
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
    ("arguments", "part"),
    [
        ([], "run is missing"),
        (["RUN", "split=train"], "split must be"),
        (["RUN", "model=mean"], "model is no setting of data"),
        (["RUN", "data=imdb"], "data.path"),
        (["RUN", "data.batchsize=3"], "batch_size"),
        (["RUN", "name=test"], "name=test"),
        (["RUN", "name=../mine"], "name=../mine"),
        (["RUN", "output=none/none.json"], "cannot be written"),
    ],
)
def test_bad_arguments(
    tiny_run: LoadedRun, capsys: pytest.CaptureFixture[str], arguments: list[str], part: str
) -> None:
    assert evaluate.main([word.replace("RUN", str(tiny_run.path)) for word in arguments]) == 2
    assert part in capsys.readouterr().err
