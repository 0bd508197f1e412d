"""From a spreadsheet to predictions, as a user types it."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import tiny

from sentattn import evaluate, predict, train
from sentattn.prediction.model import LoadedRun, load

WORDS = {"schlecht": "awful rude cold", "gut": "fine okay", "sehr gut": "great friendly superb"}
COLUMNS = ["data.text=Bewertung", "data.label=Urteil"]


def sheet(path: Path, rows: int) -> Path:
    """Writes a CSV as German spreadsheets do: byte-order mark, semicolons, line breaks in cells, empty rows."""
    labels = list(WORDS)
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["Nr", "Bewertung", "Urteil", ""])
        for i in range(rows):
            writer.writerow([i, f'Essen {WORDS[labels[i % 3]]};\n"Nummer" {i}', labels[i % 3], ""])
        writer.writerow(["", "", "gut", ""])
        writer.writerows([[""] * 4] * 3)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("table")
    sheet(folder / "reviews.csv", 90)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def run(folder: Path) -> LoadedRun:
    settings = [s for s in tiny("data=table", "data.train=reviews.csv", *COLUMNS) if not s.startswith("data.limit")]
    assert train.main([*settings, "data.classes=[schlecht,gut,sehr gut]"]) == 0
    [result] = folder.glob("outputs/table/structured/*/result.json")
    return load(result.parent)


def test_the_run_has_the_labels_in_their_order(run: LoadedRun) -> None:
    assert run.classifier.labels == ("schlecht", "gut", "sehr gut")
    assert run.settings["data"]["train"] == "reviews.csv"
    assert "val/mean_absolute_error" in run.metrics


def test_the_table_is_predicted(run: LoadedRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict.main([str(run.path), "input=reviews.csv", "output=labels.csv"]) == 0
    shown = capsys.readouterr()
    assert "90 predictions in labels.csv" in shown.out
    assert ": 4 (line 182, " in shown.err  # a header of one line, then rows of two; the last four have no text
    assert (folder / "labels.csv").read_bytes().startswith(codecs.BOM_UTF8)
    with (folder / "labels.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    assert rows[1]["Bewertung"] == 'Essen fine okay;\n"Nummer" 1'
    added = ["label", "probability_schlecht", "probability_gut", "probability_sehr gut", "unknown_words", "error"]
    assert list(rows[0]) == ["Nr", "Bewertung", "Urteil", "", *added]
    assert [row["Nr"] for row in rows] == [*map(str, range(90)), *[""] * 4]
    assert [row["error"] for row in rows] == [""] * 90 + ["no text"] * 4


def test_another_table_may_name_its_column(run: LoadedRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "new.jsonl").write_text('{"review": "superb"}\n{"review": "cold", "Urteil": 3}\n')
    assert predict.main([str(run.path), "input=new.jsonl", "column=review", "format=json"]) == 0
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == ["superb", "cold"]
    assert predict.main([str(run.path), "input=new.jsonl"]) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in ("new.jsonl, line 1", "'Bewertung'", "'review'", "column=NAME"))


def test_evaluation_of_a_split_has_the_metrics_of_the_training(run: LoadedRun, tmp_path: Path) -> None:
    expected = {name: value for name, value in run.metrics.items() if name.startswith("test/")}
    output = tmp_path / "metrics.json"
    assert evaluate.main([str(run.path), f"output={output}"]) == 0
    found = json.loads(output.read_text())
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("arguments", [[], ["data=table", *COLUMNS]])
def test_all_rows_of_another_table_are_tested(
    run: LoadedRun, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    sheet(folder / "later.csv", 20)
    output = tmp_path / "metrics.json"
    assert evaluate.main([str(run.path), *arguments, "data.test=later.csv", f"output={output}"]) == 0
    found = json.loads(output.read_text())
    assert "20 test rows" in capsys.readouterr().out
    assert "test/mean_absolute_error" in found
    predicted = [
        one.label for one in run.predict([f'Essen {WORDS[label]};\n"Nummer" {i}' for i, label in numbered(20)])
    ]
    right = sum(label == guess for (_, label), guess in zip(numbered(20), predicted, strict=True))
    assert found["test/accuracy"] == pytest.approx(right / 20, abs=1e-5)


def numbered(rows: int) -> list[tuple[int, str]]:
    return [(i, list(WORDS)[i % 3]) for i in range(rows)]


def test_a_run_without_a_header_reads_such_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("bare-1.csv", "bare-2.csv"):
        lines = [f"{i % 2},Schön {'gut' if i % 2 else 'schlecht'} {i}\n" for i in range(30)]
        (folder / name).write_text("".join(lines), encoding="latin-1")
    settings = [s for s in tiny("data=table", "data.train=bare-*.csv") if not s.startswith("data.limit")]
    columns = ["data.header=false", "data.text=2", "data.label=1", "data.encoding=latin-1", "output_dir=bare"]
    assert train.main([*settings, *columns]) == 0
    [result] = folder.glob("bare/table/structured/*/result.json")
    run = str(result.parent)
    assert predict.main([run, "input=bare-*.csv", "encoding=latin-1", "format=json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert (len(rows), rows[1]["text"], rows[1]["1"]) == (60, "Schön gut 1", "1")
    assert predict.main([run, "input=bare-1.csv"]) == 2
    assert "encoding=latin-1" in capsys.readouterr().err
    (folder / "named.csv").write_text("text,stars\ngut,1\nschlecht,0\n")
    assert predict.main([run, "input=named.csv", "column=text"]) == 0
    assert evaluate.main([run, "data=table", "data.test=bare-2.csv", "data.encoding=latin-1"]) == 0
    assert evaluate.main([run, "data=table", "data.test=named.csv", "data.text=text", "data.label=stars"]) == 0
    assert (result.parent / "predictions-named-test.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["data=table"], "data.train=FILE"),
        (["data.test=revews.csv"], "Did you mean 'reviews.csv'?"),
        (["data.test=reviews.csv", "data.label=Nr"], "(schlecht, gut, sehr gut), got '0'"),
        (["data.test=reviews.csv", "data.text=Berwertung"], "Did you mean 'Bewertung'?"),
    ],
)
def test_faults_of_another_table(
    run: LoadedRun, capsys: pytest.CaptureFixture[str], arguments: list[str], part: str
) -> None:
    assert evaluate.main([str(run.path), *arguments]) == 2
    assert part in capsys.readouterr().err
