"""The predict command on a tiny run, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch import Tensor

from sentattn import predict
from sentattn.models.attention.structured import Structured
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
    assert list(found) == ["text", "label", "probabilities", "tokens", "spans", "unknown", "attention"]
    assert found["text"] == TEXT
    assert len(found["attention"]) == tiny_run.settings["model"]["attention"]["hops"]


@pytest.fixture
def with_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the tiny run's attention even token-to-token weights in one head."""

    def even(attention: Structured, states_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        real = mask_BL.double()
        return real[:, None, :, None] * real[:, None, None, :] / real.sum(dim=1)[:, None, None, None]

    monkeypatch.setattr(Structured, "pairs", even)


@pytest.mark.usefixtures("with_pairs")
def test_a_single_text_comes_with_its_pairs(tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = [f"run={tiny_run.path}", "text=good and bad"]
    assert predict.main([*one, "format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found)[-1] == "pairs"
    assert found["pairs"] == [[pytest.approx([1 / 3] * 3)] * 3]
    assert predict.main([*one, "format=json", "pairs=false"]) == 0
    assert "pairs" not in json.loads(capsys.readouterr().out)
    assert predict.main([*one, f"plot={tmp_path / 'plot.html'}"]) == 0
    assert "<figure>" in (tmp_path / "plot.html").read_text()
    assert "pairs  no pair of words stands out" in capsys.readouterr().out


@pytest.mark.usefixtures("with_pairs")
def test_a_file_comes_with_its_pairs_when_they_are_asked_for(tiny_run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("good\n" * 12)
    plot, output = tmp_path / "plot.html", tmp_path / "out.jsonl"
    arguments = [f"run={tiny_run.path}", f"input={tmp_path / 'in.txt'}", f"output={output}", f"plot={plot}"]
    assert predict.main(arguments) == 0
    assert '"pairs"' not in output.read_text()
    assert plot.read_text().count("<article>") == 12
    assert predict.main([*arguments, "pairs=true"]) == 0
    assert [json.loads(line)["pairs"] for line in output.read_text().splitlines()] == [[[[1.0]]]] * 12
    assert plot.read_text().count("<figure>") == predict.MOST_PLOTTED_WITH_PAIRS


def test_pairs_of_a_model_that_has_none_are_refused_with_the_models_that_have(
    tiny_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict.main([f"run={tiny_run.path}", "text=good", "format=json", "pairs=true"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (sentence,) = shown.err.splitlines()
    assert sentence.startswith("error: pairs=true: the model structured has no token-to-token weights")
    listed = sentence.partition("those that have them are ")[2].partition(".")[0].split(", ")
    assert "transformer" in listed
    assert not {"structured", "mean", "lstm"} & set(listed)


def test_pairs_that_are_refused_leave_no_file(tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "_models_with_pairs", lambda: ["another"])
    written = [f"output={tmp_path / 'out.jsonl'}", f"plot={tmp_path / 'plot.png'}"]
    for outputs in (written, written[:1], written[1:]):
        assert predict.main([f"run={tiny_run.path}", "text=good", "pairs=true", *outputs]) == 2
    assert list(tmp_path.iterdir()) == []


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
        (["run=RUN", "text=a", "pairs=maybe"], "pairs=maybe is not legal: it takes true or false"),
        (["run=RUN", "input=b.txt", "pairs=true"], "pairs=true has no effect"),
        (["run=RUN", "text=a", "output=o.csv", "pairs=false"], "pairs=false has no effect"),
        (["run=RUN", "input=b.txt", "format=json", "pairs=true", "batch_size=8"], "reads one text at a time"),
        (["run=RUN", "input=none.txt"], "input=none.txt: there is no such file"),
        (["run=RUN", "text=a", "column=b"], "column=b has no effect without input=TABLE"),
        (["run=RUN", "input=a.txt", "column=b"], "column=b has no effect without input=TABLE"),
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
