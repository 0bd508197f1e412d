"""The folder for the Hugging Face Hub: what is in it, and that it loads elsewhere with the same predictions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from encoder_files import write_encoder
from refusals import refused
from tiny import tiny

import sentattn
from sentattn import fit
from sentattn.config.request import read_request
from sentattn.export import __main__ as export
from sentattn.export.hub import portable, write_folder
from sentattn.models.pretrained import load_encoder
from sentattn.prediction.model import LoadedRun

FILES = ["README.md", "config.yaml", "model", "result.json"]
OF_MODEL = ["config.yaml", "labels.json", "model.safetensors", "tokenizer.json"]
TEXTS = ["The film was not good, but I liked it.", "Unheard of: a dull, dull plot!", ""]
PRETRAINED = ["logger=none", "data.limit=60", "trainer.max_epochs=1", "trainer.accelerator=cpu", "model=pretrained"]
PRETRAINED += ["data.max_length=40"]
READER = """
import json, sys
import sentattn
for folder in sys.argv[2:]:
    print(json.dumps([prediction.to_json() for prediction in sentattn.load(folder).predict(json.loads(sys.argv[1]))]))
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def predictions(run: LoadedRun) -> list[dict[str, object]]:
    return [prediction.to_json() for prediction in run.predict(TEXTS)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder") / "tiny-bert")


@pytest.fixture(scope="module")
def frozen(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A run over a frozen encoder, which is a folder."""
    return fit([*PRETRAINED, f"model.embedding.name={encoder}", f"output_dir={tmp_path_factory.mktemp('outputs')}"])


def test_files_of_a_folder(tiny_run: LoadedRun, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    write_folder(tiny_run, folder)
    assert (names(folder), names(folder / "model")) == (FILES, OF_MODEL)
    assert names(tmp_path) == ["folder"]
    assert refused(lambda: write_folder(tiny_run, folder)) == [("output", "conflict")]


def test_a_folder_is_a_run(tiny_run: LoadedRun, tmp_path: Path) -> None:
    write_folder(tiny_run, tmp_path)
    loaded = sentattn.load(tmp_path)
    assert predictions(loaded) == predictions(tiny_run)
    assert loaded.metrics == tiny_run.metrics
    assert loaded.settings["model"] == tiny_run.settings["model"]
    assert loaded.result["setting"] == tiny_run.result["setting"]
    request = read_request([f"from={tmp_path}", "seed=7"])
    assert (request.settings.seed, request.settings.model) == (7, tiny_run.settings["model"])


@pytest.mark.slow
def test_another_process_predicts_the_same(tiny_run: LoadedRun, frozen: LoadedRun, tmp_path: Path) -> None:
    write_folder(tiny_run, tmp_path / "words")
    write_folder(frozen, tmp_path / "weights", weights=True)
    (tmp_path / "elsewhere").mkdir()
    folders = [tiny_run.path, tmp_path / "words", frozen.path, tmp_path / "weights"]
    command = [sys.executable, "-c", READER, json.dumps(TEXTS), *map(str, folders)]
    path = os.pathsep.join([str(Path(sentattn.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path / "elsewhere", env=environment, capture_output=True, check=True)
    words, exported_words, pieces, with_weights = map(json.loads, done.stdout.splitlines())
    assert len(words) == len(TEXTS)
    assert exported_words == words
    assert with_weights == pieces


def test_a_folder_with_weights_needs_no_encoder(frozen: LoadedRun, tmp_path: Path, encoder: Path) -> None:
    write_folder(frozen, tmp_path, weights=True)
    before = predictions(frozen)
    load_encoder.cache_clear()
    aside = encoder.rename(encoder.with_name("aside"))
    try:
        assert predictions(sentattn.load(tmp_path)) == before
    finally:
        aside.rename(encoder)
    assert names(tmp_path / "model" / "encoder") == ["config.json", "model.safetensors", "tokenizer.json"]


def test_an_encoder_that_differs_from_its_hash_is_refused(frozen: LoadedRun, tmp_path: Path) -> None:
    write_folder(frozen, tmp_path, weights=True)
    shutil.copyfile(write_encoder(tmp_path / "another", seed=1) / "model.safetensors", tmp_path / "weights")
    (tmp_path / "weights").rename(tmp_path / "model" / "encoder" / "model.safetensors")
    assert refused(lambda: sentattn.load(tmp_path).classifier) == [("model.embedding.name", "conflict")]


def test_a_tuned_encoder(encoder: Path, tmp_path: Path) -> None:
    own = shutil.copytree(encoder, tmp_path / "own")
    tuned = [f"model.embedding.name={own}", "model.embedding.frozen=false"]
    run = fit([*PRETRAINED, *tuned, f"output_dir={tmp_path / 'outputs'}"])
    before = predictions(run)
    write_folder(run, tmp_path / "folder", weights=True)
    shutil.rmtree(own)
    load_encoder.cache_clear()
    assert predictions(sentattn.load(tmp_path / "folder")) == before


def test_an_encoder_of_this_machine_is_not_for_others(frozen: LoadedRun, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    assert refused(lambda: write_folder(frozen, folder)) == [("weights", "missing")]
    assert not folder.exists()


def test_no_file_says_where_it_was_made(tmp_path: Path) -> None:
    rows = [f"{label},a {word} film {number}" for number in range(40) for label, word in (("n", "bad"), ("p", "good"))]
    (tmp_path / "reviews.csv").write_text("\n".join(["label,text", *rows]))
    places = [f"data.train={tmp_path}/reviews.csv", f"output_dir={tmp_path}", f"data.cache_dir={tmp_path}/cache"]
    table = [word for word in tiny() if not word.startswith("data.limit")]
    run = fit([*table, "data=table", "data.label=label", "data.test_size=0.2", *places])
    write_folder(run, tmp_path / "folder")
    content = [file.read_bytes() for file in (tmp_path / "folder").rglob("*") if file.is_file()]
    assert not any(str(tmp_path.parent).encode() in part or b"/tmp" in part for part in content)
    assert yaml.safe_load((tmp_path / "folder" / "config.yaml").read_text())["data"]["train"] == "reviews.csv"


def test_portable_settings() -> None:
    settings = {"a": ["/home/someone/rows.csv", "../rows/*.csv", "rows/a.csv"], "b": {"c": "~/b", "d": 1.5, "e": None}}
    names_only = {"a": ["rows.csv", "*.csv", "rows/a.csv"], "b": {"c": "b", "d": 1.5, "e": None}}
    kept = {"name": "user/name", "classes": ["/b/", "/c/"], "text": "~title"}
    assert portable(settings | kept) == names_only | kept


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["format=hub", "push=a/b/c"], [("push", "type")]),
        (["format=hub", "private=true"], [("private", "no_effect")]),
        (["format=onnx", "weights=true", "push=a/b"], [("weights", "no_effect"), ("push", "no_effect")]),
        (["format=hub", "push=name", "private=true"], [("push", "type")]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0], str) else "",
)
def test_refused_arguments(
    tiny_run: LoadedRun, tmp_path: Path, arguments: list[str], expected: list[tuple[str, str]]
) -> None:
    words = [f"run={tiny_run.path}", f"output={tmp_path / 'folder'}", *arguments]
    assert refused(lambda: export.main.__wrapped__(words)) == expected
    assert names(tmp_path) == []


def test_a_run_that_is_damaged_is_refused(run_copy: Path, tmp_path: Path) -> None:
    result = json.loads((run_copy / "result.json").read_text())
    del result["latency_ms"]
    (run_copy / "result.json").write_text(json.dumps(result))
    assert refused(lambda: write_folder(LoadedRun(run_copy), tmp_path / "folder")) == [("run", "damaged")]
    (run_copy / "result.json").unlink()
    assert refused(lambda: write_folder(LoadedRun(run_copy), tmp_path / "folder")) == [("result.json", "unfinished")]
    assert not (tmp_path / "folder").exists()
