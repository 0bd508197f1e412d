"""A run directory read back, and the faults of one that is none."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import yaml
from refusals import assert_refused, fault_of, refused

import sentattn
from sentattn.config.request import read_request
from sentattn.prediction.model import LoadedRun, load
from sentattn.rendering import save, terminal
from sentattn.run import Run, flush_to_disk, replacing, save_tensors, write_atomically, yaml_text
from sentattn.train import predict_command
from sentattn.training.recorder import FileInPlace
from sentattn.training.resume import advice, open_interrupted

QUOTED = ("path", "split", "test", "last.seed + 1", "missing", "typed", "trust")
"""Names of what is inserted into commands and was quoted before, or needs no quotes."""
TEXTS = ["The food was not good.", "A wonderful evening, never boring!", "ok"]


def test_loaded_run_predicts_labels_probabilities_tokens_and_attention(tiny_run: LoadedRun) -> None:
    predictions = sentattn.load(tiny_run.path).predict(TEXTS)
    assert [prediction.text for prediction in predictions] == TEXTS
    for prediction in predictions:
        assert sum(prediction.probabilities.values()) == pytest.approx(1.0, abs=1e-5)
        assert prediction.label == max(prediction.probabilities, key=lambda label: prediction.probabilities[label])
        assert [prediction.text[a:b] for a, b in prediction.spans] == prediction.tokens
        assert all(sum(row) == pytest.approx(1.0, abs=1e-5) for row in prediction.attention)
        assert {len(row) for row in prediction.attention} == {len(prediction.tokens)}


def test_predictions_equal_those_written_by_training(tiny_run: LoadedRun) -> None:
    import pyarrow.parquet as pq

    from sentattn.data.datasets.demo import DemoSource

    texts = [row.text for row in DemoSource().read("test")]
    rows = [row for row in pq.read_table(tiny_run.path / "predictions.parquet").to_pylist() if row["split"] == "test"]
    for row, prediction in zip(rows, tiny_run.predict([texts[row["row"]] for row in rows]), strict=True):
        assert list(prediction.probabilities.values()) == pytest.approx(row["probabilities"], abs=1e-5)


@pytest.mark.parametrize("text", ["", "  \n", "<br/>"])
def test_a_text_without_a_word_is_not_explained(tiny_run: LoadedRun, text: str) -> None:
    assert refused(lambda: tiny_run.explain(text)) == [("text", "missing")]


NOTHING = [None, math.nan, np.float32("nan"), "", " \n", "<br>"]
"""Values of a column of texts in which there is nothing to read."""


@pytest.mark.parametrize("pairs", [False, True])
def test_values_without_a_text_have_empty_predictions(tiny_run: LoadedRun, pairs: bool) -> None:
    found = tiny_run.predict([*NOTHING, "good", *NOTHING, "not bad"], batch_size=2, pairs=pairs)
    assert [one.label is None for one in found] == [True] * 6 + [False] + [True] * 6 + [False]
    for one, value in zip(found, NOTHING, strict=False):
        assert (one.text, one.probabilities, one.tokens) == (value if isinstance(value, str) else "", {}, [])
    for one, text in ((found[6], "good"), (found[13], "not bad")):
        assert one.probabilities == pytest.approx(tiny_run.explain(text).probabilities, abs=1e-6)


def test_an_empty_prediction_can_be_shown(tiny_run: LoadedRun, tmp_path: Path) -> None:
    found = tiny_run.predict([None, "good", " "])
    assert "no text" in found._repr_html_()
    assert json.loads(json.dumps(found[0].to_json()))["label"] is None
    for name in ("attention.png", "attention.html"):
        save(found, tmp_path / name)
    assert terminal.render(found[0], color=False, width=80)
    assert terminal.line(found[0])


class Polars:
    """What is used of a data frame of polars: iterating it gives its columns, as of no other frame."""

    def __init__(self, columns: dict[str, list[object]]) -> None:
        self._columns, self.columns = columns, list(columns)

    def __iter__(self) -> Iterator[list[object]]:
        return iter(self._columns.values())

    def __getitem__(self, name: str) -> list[object]:
        return self._columns[name]

    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame(self._columns)


FRAMES: list[Callable[[dict[str, Any]], Any]] = [pd.DataFrame, Polars, dict, pa.table, datasets.Dataset.from_dict]


def as_lists(frame: Any) -> dict[str, list[object]]:
    """Returns the columns of a frame; None is a missing value."""
    if isinstance(frame, pd.DataFrame):
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    return frame if isinstance(frame, dict) else frame.to_pydict()  # type: ignore[no-any-return]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_data_frame_comes_back_with_columns_of_predictions(
    tiny_run: LoadedRun, frame: Callable[[dict[str, Any]], Any]
) -> None:
    good, bad = tiny_run.predict(["good", "not bad"])
    for name, typed in (("text", {}), ("review", {"text": "review"})):
        texts = {"stars": [1, 2, 3, 4], name: ["good", None, "not bad", " "]}
        source = frame(texts)
        found = tiny_run.predict(source, **typed)
        assert isinstance(found, dict if frame is dict else pd.DataFrame)
        missing = math.nan if frame is dict else None
        shares = {
            f"probability_{label}": [good.probabilities[label], missing, bad.probabilities[label], missing]
            for label in tiny_run.classifier.labels
        }
        expected = {**texts, "label": [good.label, None, bad.label, None], **shares}
        if isinstance(source, pd.DataFrame | dict):
            assert as_lists(source) == texts
        columns = as_lists(found)
        assert list(columns) == list(expected)
        for column, values in expected.items():
            assert columns[column] == (pytest.approx(values, abs=1e-6, nan_ok=True) if column in shares else values)


def test_a_data_frame_of_pandas_keeps_index_and_columns(tiny_run: LoadedRun) -> None:
    values = {0: ["good", None], "label": [1, 2], "predicted_label": [3, 4], "probability_negative": [5, 6]}
    frame = pd.DataFrame(values, index=[7, 7])
    found = tiny_run.predict(frame, text=0)  # type: ignore[arg-type]  # pandas may number columns
    assert found.index.equals(frame.index)
    assert found[list(frame)].equals(frame)
    added = ["predicted_predicted_label", "predicted_probability_negative", "probability_positive"]
    assert list(found) == [*frame, *added]
    assert found[added].isna().all(axis=1).tolist() == [False, True]
    assert tiny_run.predict(frame.iloc[1:], text=0)[added[1]].dtype == float


def test_attention_as_arrays(tiny_run: LoadedRun) -> None:
    texts = ["not good at all", None, "good"]
    found = tiny_run.attention({"review": texts}, text="review")
    for (tokens, weights), prediction in zip(found, tiny_run.predict(texts), strict=True):
        assert tokens == prediction.tokens
        assert (weights.dtype, weights.shape) == (np.float32, (4, len(tokens)))
        if tokens:
            np.testing.assert_array_equal(weights, np.array(prediction.attention, dtype=np.float32))
            np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    [(tokens, _)] = tiny_run.attention("good")
    assert tokens == ["good"]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_data_frame_without_the_column_is_refused(
    tiny_run: LoadedRun, frame: Callable[[dict[str, Any]], Any]
) -> None:
    for typed in ({}, {"text": "reviews"}):
        source = frame({"review": ["good"], "stars": [1]})
        fault = fault_of(lambda typed=typed, source=source: tiny_run.predict(source, **typed))
        assert (fault.key, fault.kind) == ("text", "missing")
        assert "'review'" in fault.message
        assert "'stars'" in fault.message


def test_the_default_column_is_that_of_the_training(tiny_run: LoadedRun) -> None:
    run = LoadedRun(tiny_run.path)
    run.settings = {**tiny_run.settings, "data": {**tiny_run.settings["data"], "text": "review"}}
    [(tokens, _)] = run.attention({"text": ["a"], "review": ["good"]})
    assert tokens == ["good"]


def test_a_series_is_a_list_of_texts(tiny_run: LoadedRun) -> None:
    for series in (pa.chunked_array([["good", None]]), iter(["good", None]), np.array(["good", None], dtype=object)):
        assert [one.text for one in tiny_run.predict(series)] == ["good", ""]


@pytest.mark.parametrize("value", [["good"], b"good", {"text": "good"}])
def test_values_that_are_no_texts_are_refused(tiny_run: LoadedRun, value: object) -> None:
    assert refused(lambda: tiny_run.predict([value])) == [("text", "type")]


@pytest.mark.parametrize("content", ["\x00{nonsense", "format: 2\nmodel: {attention: 3}"])
@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "tokenizer.json", "labels.json"])
def test_a_damaged_model_is_refused(run_copy: Path, name: str, content: str) -> None:
    (run_copy / "model" / name).write_text(content)
    assert refused(lambda: load(run_copy).predict(["good"])) == [("run", "damaged")]


@pytest.mark.parametrize(
    ("key", "value"), [("max_length", "x"), ("max_length", 1.5), ("clip", "middle"), ("clip", None)]
)
def test_settings_of_a_model_of_another_type_are_refused(run_copy: Path, key: str, value: object) -> None:
    file = run_copy / "model" / "config.yaml"
    config = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**config, "text": {**config["text"], key: value}}))
    assert refused(lambda: load(run_copy).predict(["good"]))[0][0] == f"text.{key}"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("config.yaml", "[" * 100_000, "unreadable"),
        ("config.yaml", "{format: 2, data: [], model: {}}", "damaged"),
        ("config.yaml", "{format: 2, data: {}, model: {_target_: x, attention: null}}", "damaged"),
        ("result.json", "[" * 100_000, "unreadable"),
    ],
)
def test_a_damaged_run_is_refused(run_copy: Path, name: str, content: str, kind: str) -> None:
    (run_copy / name).write_text(content)
    run = Run(run_copy)
    assert refused(lambda: (run.settings, run.result)) == [(name, kind)]


def test_interrupted_run_has_no_result(run_copy: Path) -> None:
    (run_copy / "result.json").unlink()
    assert refused(lambda: Run(run_copy).result) == [("result.json", "unfinished")]
    (run_copy / "result.json").write_text("{")
    assert refused(lambda: Run(run_copy).result) == [("result.json", "unreadable")]


@pytest.mark.parametrize("found", [1, 3, "2", None])
def test_what_has_another_format_is_refused(run_copy: Path, found: object) -> None:
    result = json.loads((run_copy / "result.json").read_text())
    assert result["format"] == 2
    (run_copy / "result.json").write_text(json.dumps(result | {"format": found}))
    for file in (run_copy / "config.yaml", run_copy / "model" / "config.yaml"):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert content["format"] == 2
        file.write_text(yaml.safe_dump(content | {"format": found}))
    shutil.copyfile(run_copy / "config.yaml", run_copy / "saved.yaml")
    for call in (
        lambda: Run(run_copy).metrics,
        lambda: Run(run_copy).settings,
        lambda: load(run_copy).predict(["good"]),
        lambda: read_request([f"from={run_copy}"]),
        lambda: read_request([f"from={run_copy / 'saved.yaml'}"]),
        lambda: read_request([f"resume={run_copy}"]),
    ):
        assert_refused(call, "format", "unsupported", "04da8cb")


def test_latest_is_the_newest_finished_run(
    tiny_run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(lambda: load("latest")) == [("run", "not_found")]
    for name in ("older", "newer"):
        shutil.copytree(tiny_run.path, tmp_path / "outputs" / name)
        (tmp_path / "outputs" / name / "result.json").write_text(json.dumps({"format": 2, "name": name}))
    shutil.copytree(tiny_run.path, tmp_path / "outputs" / "unfinished")
    (tmp_path / "outputs" / "unfinished" / "result.json").unlink()
    shutil.copytree(tmp_path / "outputs" / "newer", tmp_path / "outputs" / "newer" / "hub")  # by export format=hub
    (tmp_path / "outputs" / "newer" / "hub" / "result.json").touch()
    assert sentattn.load("latest").path == Path("outputs/newer")
    assert capsys.readouterr().err == "latest is outputs/newer\n"
    assert refused(lambda: open_interrupted(Path("latest"))) == [("resume", "conflict")]


def make_run(path: Path, tiny_run: LoadedRun, **result: object) -> Path:
    """A finished run, newer than those before."""
    shutil.copytree(tiny_run.path, path)
    (path / "result.json").write_text(json.dumps({"format": 2} | result))
    return path


def test_latest_skips_trials(tiny_run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trial = make_run(tmp_path / "outputs" / "sweeps" / "a-study" / "trials" / "3", tiny_run, study="a-study")
    assert refused(lambda: load("latest")) == [("run", "not_found")]
    wanted = make_run(tmp_path / "outputs" / "demo" / "wanted", tiny_run, study=None)
    elsewhere = make_run(tmp_path / "outputs" / "moved-trial", tiny_run, study="a-study")
    for age, path in enumerate((trial, elsewhere, wanted)):
        os.utime(path / "result.json", (1e9 - age, 1e9 - age))
    assert load("latest").path == Path("outputs/demo/wanted")
    assert load(str(trial)).path == trial


@pytest.mark.parametrize("name", ["", "config.yaml"])
def test_a_training_from_a_trial_is_tested_again(tiny_run: LoadedRun, tmp_path: Path, name: str) -> None:
    trial, untested = make_run(tmp_path / "trial", tiny_run, study="a-study"), make_run(tmp_path / "run", tiny_run)
    for path in (trial, untested):
        (path / "config.yaml").write_text(yaml_text({**tiny_run.settings, "test": False}))
    assert read_request([f"from={trial / name}"]).settings["test"] is True
    assert read_request([f"from={trial / name}", "test=false"]).settings["test"] is False
    assert read_request([f"from={untested / name}"]).settings["test"] is False


def test_writers_of_one_file_do_not_disturb_one_another(tmp_path: Path) -> None:
    """As in two containers, whose processes have the same number."""
    with replacing(tmp_path / "a") as first, replacing(tmp_path / "a") as second:
        first.write_text("first")
        second.write_text("second")
    assert (tmp_path / "a").read_text() == "first"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("writes", ["result", "best", "checkpoint"])
def test_files_are_synced_before_they_are_renamed(writes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        if done[-1] == "folder":
            assert os.fstat(descriptor).st_ino == tmp_path.stat().st_ino
        else:
            assert os.fstat(descriptor).st_size > 0
        fsync(descriptor)

    def replaced(source: Path, target: Path) -> None:
        done.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    match writes:
        case "result":
            Run(tmp_path).write_result({"status": "finished"})
        case "best":
            write_atomically(tmp_path / "best.yaml", "overrides: []\n")
        case "checkpoint":
            FileInPlace().save_checkpoint({"a": 1}, tmp_path / "last.ckpt")
    assert done == ["file", "name", "folder"]


def test_a_result_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    fault = fault_of(lambda: Run(tmp_path / "gone").write_result({"status": "finished"}))
    assert (fault.key, fault.kind) == (str(tmp_path / "gone/result.json"), "unwritable")
    assert os.strerror(errno.ENOENT) in fault.message


def test_a_run_in_the_folder_of_the_user(run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(run_copy.parent))
    assert sentattn.load(f"~/{run_copy.name}").path == run_copy


def test_folders_that_are_no_runs_have_different_messages(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reasons = []
    for path in (tmp_path, tmp_path / "file", tmp_path / "none"):
        fault = fault_of(partial(sentattn.load, path))
        assert (fault.key, fault.kind) == ("run", "not_found")
        reasons.append(fault.message.replace(str(path), ""))
    assert len(set(reasons)) == 3


@pytest.mark.parametrize("folder", ["a b", "it's", "$HOME", "plain"])
def test_printed_commands_are_quoted_for_a_shell(tmp_path: Path, folder: str) -> None:
    run = Run(tmp_path / folder)
    run.last_checkpoint.parent.mkdir(parents=True)
    run.last_checkpoint.touch()
    (run.path / "config.yaml").write_text(yaml_text({"data": {}, "model": {}}))
    command = advice(run).partition(": ")[2]
    assert shlex.split(command)[-1] == f"resume={run.path}"
    assert shlex.split(predict_command(run.path).replace("\\\n", ""))[3] == f"run={run.path}"


def test_every_printed_command_quotes_its_values() -> None:
    package = Path(sentattn.__file__).parent
    for file in package.rglob("*.py"):
        for command in re.findall(r"python -m sentattn\.[^\n]*", file.read_text(encoding="utf-8")):
            for inserted in re.findall(r"\{([^{}]*)\}", command):
                quoted = "shlex." in inserted or "needed_trust(" in inserted or inserted in QUOTED
                assert quoted, f"{file.name}: {command}"


@pytest.mark.parametrize(("umask", "rights"), [(0o022, 0o644), (0o027, 0o640)])
def test_permissions_of_tensors_follow_the_umask(umask: int, rights: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        save_tensors({"a": torch.ones(2)}, file := tmp_path / "a.safetensors")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == rights


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EINVAL, "not supported")

    (file := tmp_path / "file").touch()
    monkeypatch.setattr(os, "fsync", refuse)
    flush_to_disk(tmp_path)
    with pytest.raises(OSError, match="not supported"):
        flush_to_disk(file)
