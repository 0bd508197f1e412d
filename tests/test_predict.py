"""The predict command on a tiny run, as a user types it."""

from __future__ import annotations

import csv
import inspect
import json
import os
import signal
from pathlib import Path

import pandas as pd
import pytest
import torch
from refusals import kinds, refused
from torch import Tensor

from sentattn import predict
from sentattn.models.attention.structured import Structured
from sentattn.prediction.model import load
from sentattn.prediction.prediction import Prediction
from sentattn.run import Run

TEXT = "It's great, but slow (10/10)! Schön."


def test_a_text_with_punctuation_and_its_picture(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict.main([f"run={tiny_run.path}", f"text={TEXT}", f"plot={tmp_path / 'plot.png'}"]) == 0
    shown, err = capsys.readouterr()
    assert all(part in shown for part in ("%", "hop 1", "great"))
    assert "\x1b" not in shown
    assert (tmp_path / "plot.png").stat().st_size > 1000
    assert "plot.png" in err


def test_texts_that_are_cut_are_counted(tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    longest = tiny_run.settings["data"]["max_length"]
    (tmp_path / "texts.txt").write_text("\n".join(["good " * (longest + 1), "good " * longest, ""]))
    assert predict.main([str(tiny_run.path), f"input={tmp_path / 'texts.txt'}"]) == 0
    assert "longer than the model reads: 1 of 2\n" in capsys.readouterr().err


def test_the_progress_of_a_file_has_a_total(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sentattn.console.SECONDS_BETWEEN_LINES", 0.0)
    (tmp_path / "in.csv").write_text("text\ngood\nbad\n")
    words = [str(tiny_run.path), f"input={tmp_path / 'in.csv'}", f"output={tmp_path / 'out.csv'}"]
    assert predict.main(words) == 0
    assert "predicting: 2 of 2," in capsys.readouterr().err


def test_a_signal_leaves_no_file_behind(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(self: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(predict.Summary, "count", lambda self, rows, source: (stop(row) or row for row in rows))
    (tmp_path / "in.txt").write_text("good\nbad\n")
    output = tmp_path / "out" / "out.csv"
    output.parent.mkdir()
    assert predict.main([str(tiny_run.path), f"input={tmp_path / 'in.txt'}", f"output={output}"]) == 143
    assert not list(output.parent.iterdir())
    assert "SIGTERM" in capsys.readouterr().err


def test_a_table_of_many_classes_is_joined_at_once(
    tiny_run: Run, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load(tiny_run.path)
    labels = [f"class {number}" for number in range(150)]
    one = Prediction("a", labels[0], dict.fromkeys(labels, 1 / 150), ["a"], [(0, 1)], [[1.0]])
    monkeypatch.setattr(run.classifier, "labels", labels)
    monkeypatch.setattr(run.classifier, "stream", lambda texts, **_: (one for _ in texts))
    assert run.predict(pd.DataFrame({"text": ["a", "b"]})).shape == (2, 152)
    assert not [warning for warning in recwarn if issubclass(warning.category, pd.errors.PerformanceWarning)]


def test_rows_without_a_text_and_breaks_of_lines_keep_their_places(tiny_run: Run, tmp_path: Path) -> None:
    texts = ["good", "", "bad\rgreat", "good\nbad"]
    with (tmp_path / "in.CSV").open("w", newline="") as file:
        csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL).writerows(
            [("text", "n"), *((text, "") for text in texts)]
        )
    output = tmp_path / "out.csv"
    assert predict.main([f"run={tiny_run.path}", f"input={tmp_path / 'in.CSV'}", f"output={output}"]) == 0
    with output.open(newline="") as file:
        rows = [*csv.DictReader(file, delimiter=";")]
    assert [row["text"] for row in rows] == texts
    assert [bool(row["label"]) for row in rows] == [True, False, True, True]
    assert b"\r\n" not in output.read_bytes()


@pytest.mark.parametrize("name", ["in.JSONL", "in.TXT"])
def test_the_case_of_an_ending_does_not_matter(name: str, tiny_run: Run, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"text": "good"}\n{"text": "bad", "extra": 7}\n')
    output = tmp_path / "out.jsonl"
    assert predict.main([f"run={tiny_run.path}", f"input={tmp_path / name}", f"output={output}"]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert ("extra" in rows[1]) == name.endswith("JSONL")
    assert len(rows) == 2


def test_json_has_no_character_that_a_terminal_executes(tiny_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    text = "good \x9b31m \x1b[31m \x7f"
    assert predict.main([str(tiny_run.path), f"text={text}", "format=json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["text"] == text
    assert not {"\x9b", "\x1b", "\x7f"} & {*out}


@pytest.fixture
def with_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the tiny run's attention even token-to-token weights in one head."""

    def even(attention: Structured, states_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        real = mask_BL.double()
        return real[:, None, :, None] * real[:, None, None, :] / real.sum(dim=1)[:, None, None, None]

    monkeypatch.setattr(Structured, "pairs", even)


@pytest.mark.usefixtures("with_pairs")
def test_a_single_text_has_its_pairs(tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = [f"run={tiny_run.path}", "text=good and bad"]
    assert predict.main([*one, "format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found)[-1] == "pairs"
    assert found["pairs"] == [[pytest.approx([1 / 3] * 3)] * 3]
    assert predict.main([*one, f"plot={tmp_path / 'plot.html'}"]) == 0
    assert "<figure>" in (tmp_path / "plot.html").read_text()
    assert "\npairs " in capsys.readouterr().out


@pytest.mark.usefixtures("with_pairs")
def test_a_file_has_no_pairs_and_its_first_texts_are_drawn(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "MAX_PLOTTED", 2)
    (tmp_path / "in.txt").write_text("good\n" * 3)
    plot, output = tmp_path / "plot.html", tmp_path / "out.jsonl"
    assert predict.main([str(tiny_run.path), f"input={tmp_path / 'in.txt'}", f"output={output}", f"plot={plot}"]) == 0
    assert '"pairs"' not in output.read_text()
    assert plot.read_text().count("<article>") == 2


def test_predictions_of_a_file_are_in_its_order(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_settings_that_do_nothing_are_accepted(tiny_run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    others = ["column=b", "header=false", "format=json", f"output={output}"]
    assert predict.main([f"run={tiny_run.path}", "text=good", *others]) == 0
    assert output.read_text().startswith("text,label,")


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["run=RUN"], [("text", "missing")]),
        (["run=RUN", "text=a", "input=b.txt"], [("input", "conflict")]),
        (["run=RUN", "text= "], [("text", "missing")]),
        (["run=RUN", "text=<br>"], [("text", "missing")]),
        (["run=RUN", "text=a", "plot=a.gif"], [("plot", "unsupported")]),
        (["run=RUN", "input=none.txt"], [("input", "not_found")]),
        (["run=RUN", "text=a", "output=o.xls"], [("output", "unsupported")]),
        (["run=RUN", "txet=a", "top=0"], [("txet", "unknown"), ("top", "range")]),
        (["run=RUN", "text=a", "threshold=80", "device=gpu"], [("threshold", "range"), ("device", "range")]),
        (["run=nowhere", "text=a"], [("run", "not_found")]),
    ],
)
def test_errors_have_key_and_kind(tiny_run: Run, arguments: list[str], keys: list[tuple[str, str]]) -> None:
    words = [word.replace("RUN", str(tiny_run.path)) for word in arguments]
    assert kinds(words, inspect.unwrap(predict.main)) == keys


def test_a_damaged_file_leaves_no_output(tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.txt").write_bytes(b"good\nb\xe4d\n")
    arguments = [f"run={tiny_run.path}", f"input={tmp_path / 'in.txt'}", f"output={tmp_path / 'o.csv'}"]
    assert predict.main(arguments) == 2
    assert "in.txt, line 2" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt"}


def test_a_file_without_any_text_is_refused(tiny_run: Run, tmp_path: Path) -> None:
    for name, content in {"a.txt": "\n\n", "b.csv": "text,n\n,1\n", "c.txt": ""}.items():
        (tmp_path / name).write_text(content)
        words = [f"run={tiny_run.path}", f"input={tmp_path / name}", f"output={tmp_path / 'o.csv'}"]
        assert kinds(words, inspect.unwrap(predict.main)) == [("input", "missing")]
    assert not (tmp_path / "o.csv").exists()


def test_rows_without_a_text_and_unknown_words_are_reported(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("id,text\n1,The zzz\n2,\n3,the\n")
    assert predict.main([f"run={tiny_run.path}", f"input={tmp_path / 'in.csv'}"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert shown.out.splitlines()[1] == "(line 3: no text)"
    assert "1 (line 3)" in shown.err
    assert "1 of 3 tokens" in shown.err


def test_texts_of_several_columns_are_joined(tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.csv").write_text("title,text\nGood,the film\n,bad\n")
    arguments = [f"run={tiny_run.path}", f"input={tmp_path / 'in.csv'}"]
    assert predict.main([*arguments, "column=[title,text]", "format=json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["text"], first["predicted_text"]) == ("the film", "Good\nthe film")
    assert [first["predicted_text"][start:end] for start, end in first["spans"]] == first["tokens"]
    assert (second["text"], second["tokens"]) == ("bad", ["bad"])
    frame = {"title": ["Good", None], "text": ["the film", "bad"]}
    run = load(tiny_run.path)
    expected = [one.probabilities for one in run.predict(["Good\nthe film", "bad"])]
    found = run.predict(frame, text=["title", "text"])
    assert found["probability_negative"] == pytest.approx([one["negative"] for one in expected])
    assert predict.main([*arguments, "column=[titel,text]"]) == 2
    assert "Did you mean 'title'?" in capsys.readouterr().err


def test_unknown_words_of_a_text_are_reported(tiny_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict.main([f"run={tiny_run.path}", "text=The zzz"]) == 0
    assert "vocabulary: zzz" in capsys.readouterr().out
    assert predict.main([f"run={tiny_run.path}", "text=The zzz", "format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown"] == [1]


def test_the_most_probable_classes_of_a_file(tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.csv").write_text("text,top_1\ngood,x\n,y\n")
    words = [f"run={tiny_run.path}", f"input={tmp_path / 'in.csv'}", f"output={tmp_path / 'out.csv'}"]
    [expected] = load(tiny_run.path).predict("good", top=1)
    for top, ranks in (("top=1", [1]), ("top=9", [1, 2])):
        assert predict.main([*words, top]) == 0
        frame = pd.read_csv(tmp_path / "out.csv")
        names = [name for rank in ranks for name in (f"top_{rank}", f"top_{rank}_probability")]
        names[0] = "predicted_top_1"
        assert list(frame) == ["text", "top_1", "label", *names, "unknown_words", "error"]
        assert frame["predicted_top_1"].tolist()[0] == frame["label"].tolist()[0] == expected.label
        assert frame["top_1_probability"][0] == pytest.approx(expected.share, abs=1e-6)
        assert frame[names].isna().all(axis=1).tolist() == [False, True]
    capsys.readouterr()
    assert predict.main([*words[:2], "top=2"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert all(label in first for label in load(tiny_run.path).classifier.labels)
    assert predict.main([words[0], "text=good", "top=1", "format=json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["probabilities"]) == [expected.label]
    assert predict.main([words[0], "text=good", "top=1"]) == 0
    assert "1 more" not in capsys.readouterr().out


def test_texts_below_the_threshold_have_no_label(
    tiny_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("text\ngood\n\nbad\n")
    run = load(tiny_run.path)
    sure, unsure = sorted(run.predict(["good", "bad"]), key=lambda one: -one.share)
    threshold = (sure.share + unsure.share) / 2
    words = [f"run={tiny_run.path}", f"input={tmp_path / 'in.csv'}", f"threshold={threshold}"]
    assert predict.main([*words, f"output={tmp_path / 'out.csv'}"]) == 0
    assert "below the threshold: 1 of 2;" in capsys.readouterr().err
    frame = pd.read_csv(tmp_path / "out.csv").set_index("text")
    assert frame["label"].isna().to_dict() == {sure.text: False, unsure.text: True}
    assert frame["probability_positive"].notna().all()
    assert frame["error"].isna().all()
    assert predict.main(words) == 0
    assert sum(line.startswith("no label") for line in capsys.readouterr().out.splitlines()) == 1
    found = run.predict({"text": ["good", "bad"]}, threshold=threshold)
    assert found["label"].count(None) == 1
    assert [one.label for one in run.predict(["good", "bad"], threshold=1.0)] == [None, None]


def test_the_device_of_a_prediction(tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []
    run = load(tiny_run.path)
    expected = run.predict(["good"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run.predict(["good"], device="auto") == run.predict(["good"], device="cpu") == expected
    assert refused(lambda: run.predict(["good"], device="cuda")) == [("device", "resources")]
    typed = [str(tiny_run.path), "text=good", "device=cuda"]
    assert kinds(typed, inspect.unwrap(predict.main)) == [("device", "resources")]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(type(run.classifier.model), "to", lambda self, device: moved.append(device))
    for device in ("auto", "cuda", "cpu", None):
        assert run.predict(["good"], device=device) == expected
    assert moved == ["cuda", "cuda", "cpu"]


def test_wrong_options_in_python(tiny_run: Run) -> None:
    wrong = {"top": 0, "threshold": 1.5, "device": "gpu"}
    assert refused(lambda: load(tiny_run.path).predict(["good"], **wrong)) == [
        ("top", "range"),
        ("threshold", "range"),
        ("device", "range"),
    ]
