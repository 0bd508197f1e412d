"""Files of texts in, files of predictions out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentattn.errors import DataError, RunError
from sentattn.insight.prediction import Prediction
from sentattn.text_files import read_texts, write_predictions

TEXTS = ['Good, "really" good!', "Schön; aber\tlang", "7/10"]


def write(path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        match path.suffix:
            case ".txt":
                file.write("".join(f"{text}\n" for text in TEXTS))
            case ".jsonl":
                file.write("".join(json.dumps({"text": text, "stars": 3}) + "\n" for text in TEXTS))
            case suffix:
                writer = csv.writer(file, delimiter="," if suffix == ".csv" else "\t")
                writer.writerows([["stars", "text"], *([3, text] for text in TEXTS)])
    return path


def prediction(text: str) -> Prediction:
    return Prediction(
        text=text,
        label="positive",
        probabilities={"negative": 0.25, "positive": 0.75},
        tokens=["a"],
        spans=[(0, 1)],
        attention=[[1.0]],
    )


def texts(path: Path, **settings: str) -> list[str]:
    return list(read_texts(path, left_out=lambda where: pytest.fail(where), **settings))


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".tsv", ".jsonl"])
def test_texts_come_back_in_order(tmp_path: Path, suffix: str) -> None:
    assert texts(write(tmp_path / f"texts{suffix}")) == TEXTS


def test_rows_of_a_table_without_a_text_are_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("stars;review\n1;good\n2;\n3;<br /> <br>\n\n4;bad\n")
    left_out: list[str] = []
    assert list(read_texts(tmp_path / "a.csv", column="review", left_out=left_out.append)) == ["good", "bad"]
    assert left_out == ["line 3", "line 4"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"good\n\nbad\n", r"a\.txt, line 2: the text is empty"),
        ("a.txt", b"", "holds no text"),
        ("a.txt", b"good\nb\xe4d\n", r"a\.txt, line 2: byte 0xe4 .* is not UTF-8"),
        ("a.csv", b"review,stars\nx,1\n", "no column 'text'; it has 'review', 'stars'. Name the column .* column=NAME"),
        ("a.jsonl", b'{"text": "x"}\n{"review": "y"}\n', r"a\.jsonl, line 2 has no column 'text'; it has 'review'"),
        ("a.jsonl", b'{"text": "x"}\nnonsense\n', r"a\.jsonl, line 2"),
        ("a.jsonl", b'{"text": 7}\n', r"a\.jsonl, line 1: 'text' holds a number \(7\), no text"),
        ("a.csv", b"text,stars\n,1\n", "holds no text"),
        ("a.pdf", b"x", r"unknown ending; legal are \.txt"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_texts(tmp_path / name, left_out=lambda where: None))


def test_missing_file(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(DataError, match=r"^input=.*none\.txt: there is no such file\. Did you mean 'mine\.txt'\?"):
        texts(tmp_path / "none.txt")


def test_json_lines_hold_everything(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    assert write_predictions(path, map(prediction, TEXTS)) == 3
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert rows[0]["attention"] == [[1.0]]


def test_table_holds_probabilities_by_label(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_predictions(path, map(prediction, TEXTS))
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == TEXTS
    assert rows[0]["probability_positive"] == "0.750000"


def test_a_fault_halfway_leaves_no_file_behind(tmp_path: Path) -> None:
    def failing() -> Iterator[Prediction]:
        yield prediction("a")
        raise DataError("line 2 is empty")

    with pytest.raises(DataError):
        write_predictions(tmp_path / "out.jsonl", failing())
    assert list(tmp_path.iterdir()) == []


def test_output_faults(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"unknown ending; legal are \.jsonl"):
        write_predictions(tmp_path / "out.xls", [])
    with pytest.raises(RunError, match="cannot be written: No such file or directory"):
        write_predictions(tmp_path / "none" / "out.csv", [])
