"""Runs on the Hugging Face Hub: uploaded, and loaded by their names; the Hub is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hub_server
import pytest
from hub_server import TOKEN, UNREACHABLE, Repository, Server
from refusals import refused
from tiny import tiny

import sentattn
from sentattn import evaluate, fit, predict
from sentattn.config.request import read_request
from sentattn.explore import __main__ as explore
from sentattn.export import __main__ as export
from sentattn.export.hub import upload, write_folder
from sentattn.prediction.model import LoadedRun

NAME, ADDRESS = "someone/model", "hf://someone/model"
TEXT = "The film was not good, but I liked it."


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Server]:
    with hub_server.serving(tmp_path / "cache") as server:
        yield server


@pytest.fixture(scope="module")
def folder(tiny_run: LoadedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "folder"
    write_folder(tiny_run, path)
    return path


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch, hub: Server) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)


def downloads(hub: Server) -> list[str]:
    return sorted(request.partition("/resolve/")[2][41:] for request in hub.requests if request.startswith("GET some"))


@pytest.mark.usefixtures("token")
def test_from_the_command_to_a_prediction(
    hub: Server, tiny_run: LoadedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export.main([str(tiny_run.path), "format=hub", f"output={tmp_path / 'folder'}", f"push={NAME}"]) == 0
    out, _ = capsys.readouterr()
    assert f"{hub.address}/{NAME}" in out
    assert ADDRESS in out
    assert not hub.repositories[NAME].private
    assert f'sentattn.load("{ADDRESS}")' in (tmp_path / "folder" / "README.md").read_text()
    assert predict.main([f"run={ADDRESS}", f"text={TEXT}", "format=json"]) == 0
    assert f'"label": "{tiny_run.explain(TEXT).label}"' in capsys.readouterr().out


@pytest.mark.usefixtures("token")
def test_a_private_repository(hub: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(folder, NAME, private=True)
    assert hub.repositories[NAME].private
    assert sentattn.load(ADDRESS).settings["seed"] == 0
    monkeypatch.delenv("HF_TOKEN")
    hub.repositories["someone/other"] = hub.repositories[NAME]
    assert refused(lambda: sentattn.load("hf://someone/other")) == [("run", "not_found")]


@pytest.mark.usefixtures("token")
def test_private_is_refused_where_the_repository_is_public(hub: Server, folder: Path) -> None:
    hub.repositories[NAME] = Repository()
    assert refused(lambda: upload(folder, NAME, private=True)) == [("push", "network")]
    assert not hub.repositories[NAME].commits


@pytest.mark.usefixtures("token")
def test_files_of_an_earlier_model_are_deleted(hub: Server, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "old" / "model" / "encoder").mkdir(parents=True)
    for name in ("model/encoder/config.json", "model/labels.json", "notes.md"):
        (tmp_path / "old" / name).write_text("{}")
    hub.add(NAME, tmp_path / "old")
    upload(folder, NAME, private=False)
    files = [*hub.repositories[NAME].commits.values()][-1]
    assert "model/encoder/config.json" not in files
    assert files["model/labels.json"] != b"{}"
    assert "notes.md" in files


def test_an_upload_without_a_token_is_refused_before_anything_is_written(hub: Server, tmp_path: Path) -> None:
    words = [f"run={tmp_path}/none", "format=hub", f"push={NAME}"]
    assert refused(lambda: export.main.__wrapped__(words)) == [("push", "missing")]
    assert not hub.repositories


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize("failure", ["no network", "wrong token", "refused"])
def test_an_upload_that_fails(hub: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, failure: str) -> None:
    if failure == "no network":
        hub_server.point_at(monkeypatch, UNREACHABLE)
    elif failure == "wrong token":
        monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
    else:
        hub.status = 403
    assert refused(lambda: upload(folder, NAME, private=False)) == [("push", "network")]
    assert (folder / "README.md").is_file()


def test_only_data_is_downloaded_and_once(hub: Server, folder: Path, tiny_run: LoadedRun, tmp_path: Path) -> None:
    hub.add(NAME, folder)
    files = [*hub.repositories[NAME].commits.values()][-1]
    files |= {"model/code.py": b"raise SystemExit", "model/weights.pkl": b"", "setup.py": b"", "model/x.bin": b""}
    run = sentattn.load(ADDRESS)
    assert run.explain(TEXT).to_json() == tiny_run.explain(TEXT).to_json()
    assert run.metrics == tiny_run.metrics
    of_model = ["config.yaml", "labels.json", "model.safetensors", "tokenizer.json"]
    assert downloads(hub) == ["config.yaml", *(f"model/{name}" for name in of_model), "result.json"]
    hub.requests.clear()
    sentattn.load(ADDRESS)
    assert downloads(hub) == []


@pytest.mark.parametrize("way", ["offline", "no network"])
def test_what_is_cached_needs_no_network(hub: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    hub.add(NAME, folder)
    cached = sentattn.load(ADDRESS)
    if way == "offline":
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    else:
        hub_server.point_at(monkeypatch, UNREACHABLE)
    assert sentattn.load(ADDRESS).path == cached.path
    assert refused(lambda: sentattn.load("hf://someone/other")) == [("run", "not_found")]


def test_a_revision(hub: Server, folder: Path, tmp_path: Path) -> None:
    first = hub.add(NAME, folder)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.yaml").write_text("{format: 2, seed: 7, data: {}, model: {}}")
    hub.add(NAME, tmp_path / "new")
    assert sentattn.load(f"{ADDRESS}@{first}").settings["seed"] == 0
    assert sentattn.load(ADDRESS).settings["seed"] == 7
    assert refused(lambda: sentattn.load(f"{ADDRESS}@{'0' * 40}")) == [("run", "not_found")]


@pytest.mark.parametrize("address", ["hf://model", "hf://a/b/c", "hf://", "hf://a/..", "hf://../b", "hf://@", ADDRESS])
def test_names_that_are_none(hub: Server, address: str) -> None:
    assert refused(lambda: sentattn.load(address)) == [("run", "not_found")]


def test_a_repository_that_is_no_model_of_sentattn(hub: Server, tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "pytorch_model.bin").write_bytes(b"")
    hub.add("someone/bert", tmp_path / "bert")
    assert refused(lambda: sentattn.load("hf://someone/bert")) == [("run", "not_found")]


def test_classes_that_are_not_of_sentattn_are_refused(hub: Server, folder: Path) -> None:
    hub.add(NAME, folder)
    files = [*hub.repositories[NAME].commits.values()][-1]
    files["model/config.yaml"] = files["model/config.yaml"].replace(b"sentattn.models.attention.", b"os.")
    assert refused(lambda: sentattn.load(ADDRESS).classifier) == [("model.attention", "unsafe")]


def test_commands_that_read_a_run(
    hub: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add(NAME, folder)
    assert read_request([f"from={ADDRESS}", "seed=7"]).settings.seed == 7
    assert evaluate.main([f"run={ADDRESS}", "data.limit=20"]) == 0
    assert "accuracy" in capsys.readouterr().out
    shown: list[object] = []
    monkeypatch.setattr("sentattn.explore.server.serve", lambda models, *_, **__: shown.extend(models))
    assert explore.main([ADDRESS, "open=false"]) == 0
    assert len(shown) == 1


def test_an_encoder_that_is_on_the_hub(hub: Server, tmp_path: Path) -> None:
    from encoder_files import write_encoder

    hub.add("someone/tiny-bert", write_encoder(tmp_path / "encoder"))
    model = ["model=pretrained", "model.embedding.name=someone/tiny-bert", "data.max_length=40"]
    short = [word for word in tiny("data.limit=60", "trainer.max_epochs=1") if not word.startswith("model.")]
    run = fit([*short, *model, f"output_dir={tmp_path / 'outputs'}"])
    write_folder(run, tmp_path / "folder", address=NAME)
    assert "base_model: someone/tiny-bert" in (tmp_path / "folder" / "README.md").read_text()
    hub.add(NAME, tmp_path / "folder")
    assert sentattn.load(ADDRESS).explain(TEXT).to_json() == run.explain(TEXT).to_json()
