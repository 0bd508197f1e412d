"""The predict command on a tiny run, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentattn import predict
from sentattn.run import Run

TEXT = "It's great, but slow (10/10)! Schön."


def test_a_sentence_with_signs_hydra_would_refuse(tiny_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict.main([f"run={tiny_run.path}", f"text={TEXT}"]) == 0
    shown = capsys.readouterr().out
    assert "%" in shown
    assert "hop 1" in shown
    assert "great" in shown
    assert "\x1b" not in shown


def test_json_has_the_keys_of_the_design(tiny_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict.main([str(tiny_run.path), f"text={TEXT}", "format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["text", "label", "probabilities", "tokens", "spans", "attention"]
    assert found["text"] == TEXT
    assert len(found["attention"]) == tiny_run.settings["model"]["attention"]["hops"]


@pytest.mark.parametrize("name", ["plot.png", "plot.html"])
def test_plot(tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert predict.main([f"run={tiny_run.path}", f"text={TEXT}", f"plot={tmp_path / name}"]) == 0
    assert (tmp_path / name).stat().st_size > 1000
    assert name in capsys.readouterr().err


def test_a_file_keeps_its_order_and_streams(tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [f"The food was {'very ' * (i % 7)}good, number {i}." for i in range(150)]
    (tmp_path / "in.txt").write_text("\n".join(texts))
    output = tmp_path / "out.jsonl"
    arguments = [f"run={tiny_run.path}", f"input={tmp_path / 'in.txt'}", f"output={output}", "batch_size=8"]
    assert predict.main(arguments) == 0
    assert [json.loads(line)["text"] for line in output.read_text().splitlines()] == texts
    assert "150 predictions" in capsys.readouterr().out
    assert predict.main(arguments[:2]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 150
    assert all("number" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "run is missing"),
        (["run=RUN"], 'type text="..." or input=FILE'),
        (["run=RUN", "text=a", "input=b.txt"], "leave one out"),
        (["run=RUN", "text= "], "text= is empty"),
        (["run=RUN", "txet=a"], "Did you mean 'text'"),
        (["run=RUN", "text=a", "plot=a.gif"], "legal are .png and .html"),
        (["run=RUN", "text=a", "format=xml"], "format=xml is not legal"),
        (["run=RUN", "text=a", "batch_size=0"], "batch_size=0 is not legal"),
        (["run=RUN", "text=a", "format=json", "output=o.csv"], "has no effect"),
        (["run=RUN", "input=none.txt"], "none.txt cannot be read"),
        (["run=nowhere", "text=a"], "nowhere is no folder"),
    ],
)
def test_faults_are_one_sentence_and_exit_code_2(
    tiny_run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert predict.main([word.replace("RUN", str(tiny_run.path)) for word in arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert all(line.startswith("error: ") for line in error.splitlines())


def test_a_fault_in_a_file_names_the_line_and_leaves_no_output(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("good\n\n")
    assert predict.main([f"run={tiny_run.path}", f"input={tmp_path / 'in.txt'}", f"output={tmp_path / 'o.csv'}"]) == 2
    assert "in.txt, line 2: the text is empty" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt"}
