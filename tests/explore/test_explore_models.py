"""Models of an explorer: which are loaded, and what a text is without one of its tokens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from untrained_runs import classifier

from sentattn.errors import RunError
from sentattn.explore import server
from sentattn.explore.server import Model, load_models
from sentattn.prediction.model import LoadedRun

MODEL = Model("mine", LoadedRun(Path("none")))
MODEL.run.classifier = classifier("model=mean", "data.max_length=null")


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in MODEL.encoded_spans(text)]


@given(st.data(), st.text("ab1'.,<>/- \n\u00e9\U0001f600", max_size=20))
def test_a_text_without_a_token_has_all_the_others(data: st.DataObject, text: str) -> None:
    tokens = words(text)
    if not tokens:
        return
    place = data.draw(st.integers(0, len(tokens) - 1))
    shortened, removed = MODEL.edited(text, place)
    assert removed == tokens[place]
    assert words(shortened) == tokens[:place] + tokens[place + 1 :]
    replaced, before = MODEL.edited(text, place, "\u4e16")
    assert before == tokens[place]
    start, end = MODEL.encoded_spans(text)[place]
    assert replaced == f"{text[:start]}\u4e16{text[end:]}"


@pytest.mark.parametrize(
    ("text", "token", "expected"),
    [
        ("a good film", 1, "a film"),
        ("good film", 0, "film"),
        ("a film", 1, "a"),
        ("good,bad", 1, "good bad"),
        ("not good.", 1, "not ."),
        ("(good)", 1, "( )"),
    ],
)
def test_one_space_remains_between_words(text: str, token: int, expected: str) -> None:
    assert MODEL.edited(text, token)[0] == expected


@pytest.mark.parametrize("token", [-1, 2])
def test_a_token_out_of_range_is_refused(token: int) -> None:
    assert refused(lambda: MODEL.edited("a film", token)) == [("token", "range")]


@pytest.fixture
def folder(outputs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(outputs, tmp_path / "outputs"))


@pytest.fixture
def run(folder: Path) -> Path:
    """The run of `structured`."""
    [run] = (folder / "demo" / "structured").iterdir()
    return run


def change_result(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    result = json.loads((run / "result.json").read_text())
    change(result)
    (run / "result.json").write_text(json.dumps(result))


def test_a_run_of_each_setting_is_loaded(folder: Path, run: Path) -> None:
    shutil.copytree(run, run.with_name("again"))  # another seed of the same setting
    found, faults = load_models([folder, folder])
    assert [model.name for model in found] == ["structured", "transformer"]
    assert not faults


def test_trials_are_loaded_by_name_only(folder: Path, run: Path) -> None:
    change_result(run, lambda result: result.update(study="mine"))
    assert [model.name for model in load_models([folder])[0]] == ["transformer"]
    assert [model.name for model in load_models([run])[0]] == ["structured"]


def test_damaged_runs_are_reported(folder: Path, run: Path) -> None:
    (run / "model" / "model.safetensors").write_bytes(b"no weights")
    found, faults = load_models([folder])
    assert [model.name for model in found] == ["transformer"]
    assert [fault.kind for fault in faults] == ["damaged"]


def test_the_number_of_models_is_limited(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_MODELS", 1)
    found, faults = load_models([outputs])
    assert len(found) == 1
    assert [(fault.key, fault.kind) for fault in faults] == [("runs", "range")]


def test_the_most_accurate_model_comes_first(folder: Path, run: Path) -> None:
    change_result(run, lambda result: result["metrics"].update({"val/accuracy": 0.1}))
    assert [model.name for model in load_models([folder])[0]] == ["transformer", "structured"]


def test_no_model_is_an_error(outputs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("{}")
    (run / "result.json").write_text(json.dumps({"format": 2, "status": "finished"}))
    with pytest.raises(RunError) as caught:
        load_models([run, tmp_path / "none"])
    assert [fault.kind for fault in caught.value.faults] == ["not_found", "damaged", "not_found"]


def test_no_pairs_of_a_long_text(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_TOKENS_OF_PAIRS", 3)
    transformer = load_models([outputs])[0][1]
    assert transformer.predict("a good film", pairs=True).pairs is not None
    assert transformer.predict("a very good film", pairs=True).pairs is None
