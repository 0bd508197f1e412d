"""What a training command asks for, and the faults of it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
import yaml
from choices_of_ones_own import config_folder
from refusals import faults, kinds

from sentattn.config.compose import compose, override
from sentattn.config.request import COMMAND_KEYS, Request, read_request
from sentattn.config.schema import Settings
from sentattn.run import yaml_text


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A run directory with settings of its own."""
    folder = tmp_path / "run (1)"
    folder.mkdir()
    write(folder / "config.yaml", compose(["model.attention.hops=7", "seed=5", "optimizer=sgd"]))
    return folder


def write(file: Path, content: Any) -> Path:
    file.write_text(yaml_text(content) if "data" in content else yaml.safe_dump(content))
    return file


def messages(*arguments: str) -> list[str]:
    return [fault.message for fault in faults(arguments, read_request)]


def test_keys_of_the_command_are_no_settings() -> None:
    settings = Settings.of(compose(["model=mean"]))
    assert read_request(["model=mean"]) == Request(settings, 1, False, None)
    assert read_request(["seeds=3", "check=true", "model=mean"]) == Request(settings, 3, True, None)
    assert not set(COMMAND_KEYS) & set(settings)


def test_seeds_follow_the_first_seed() -> None:
    runs = read_request(["seed=5", "seeds=3"]).runs()
    assert runs == [compose([f"seed={seed}"]) for seed in (5, 6, 7)]


def test_settings_are_a_record_and_a_mapping() -> None:
    settings = read_request(["model=mean", "tags=[a]"]).settings
    assert (settings.seed, settings.objective.mode, settings.model["name"]) == (0, "max", "mean")
    content = compose(["model=mean", "tags=[a]"])
    assert settings == content
    assert list(settings) == list(content)
    assert yaml.safe_load(yaml.safe_dump(dict(settings))) == content
    assert copy.deepcopy(settings) == pickle.loads(pickle.dumps(settings)) == settings
    with pytest.raises(FrozenInstanceError):
        settings.seed = 3  # type: ignore[misc]
    with pytest.raises(KeyError):
        settings["sed"]


def test_settings_of_a_run_with_changes(saved: Path) -> None:
    request = read_request([f"from={saved}", "loss.penalty=0.5", "data=imdb", "seeds=2"])
    own = compose(["model.attention.hops=7", "seed=5", "optimizer=sgd"])
    assert request.settings == override(own, ["loss.penalty=0.5", "data=imdb"])
    assert [one["seed"] for one in request.runs()] == [5, 6]
    assert read_request([f"from={saved}", "seed=1"]).settings == {**own, "seed": 1}


def test_a_file_of_settings(saved: Path) -> None:
    assert read_request([f"from={saved / 'config.yaml'}"]) == read_request([f"from={saved}"])


def test_the_latest_run_is_looked_up_once(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    latest = tmp_path / "outputs" / "demo" / "structured" / saved.name
    latest.parent.mkdir(parents=True)
    saved.rename(latest)
    (latest / "model").mkdir()
    (latest / "result.json").write_text('{"format": 2, "status": "finished"}')
    monkeypatch.chdir(tmp_path)
    request = read_request(["from=latest"])
    assert request.origin is not None
    assert request.origin.resolve() == latest
    assert capsys.readouterr().err.count(saved.name) == 1


def test_a_file_of_arguments(tmp_path: Path) -> None:
    best = write(tmp_path / "best.yaml", {"study": "x", "overrides": ["model=structured", "model.attention.hops=9"]})
    settings = read_request([f"from={best}", "seed=4"]).settings
    assert settings == compose(["model=structured", "model.attention.hops=9", "seed=4"])
    assert read_request([f"from={best}", "model=mean"]).settings["model"] == compose(["model=mean"])["model"]


def test_choices_of_a_config_folder(tmp_path: Path) -> None:
    folder = config_folder(tmp_path / "conf", {"optimizer/mine": "_target_: torch.optim.sgd.SGD\nlr: 0.3\n"})
    best = write(tmp_path / "best.yaml", {"overrides": ["optimizer=mine"]})
    settings = read_request([folder, f"from={best}", "seed=2"]).settings
    assert (settings["optimizer"]["lr"], settings["seed"]) == (0.3, 2)


def test_a_run_to_resume_keeps_its_settings(saved: Path) -> None:
    expected = compose(["model.attention.hops=7", "seed=5", "optimizer=sgd"])
    assert read_request([f"resume={saved}"]) == Request(Settings.of(expected), 1, False, str(saved))
    assert read_request([f"resume={saved}", "--config-dir", str(saved)]).settings == expected


def test_resume_auto_takes_any_settings(saved: Path) -> None:
    assert read_request(["resume=auto", "model=mean"]).settings == compose(["model=mean"])
    request = read_request(["resume=auto", f"from={saved}", "seeds=2"])
    assert (request.settings["model"]["attention"]["hops"], request.seeds, request.resume) == (7, 2, "auto")


def test_resume_with_other_settings_is_refused_and_names_from(saved: Path) -> None:
    words = ["optimizer.lr=0.1", "model=mean"]
    [fault] = faults([f"resume={saved}", *words], read_request)
    assert (fault.key, fault.kind) == ("resume", "conflict")
    assert " ".join([f"from={saved}", *words]) in fault.message


def test_keys_that_conflict_with_resume(saved: Path) -> None:
    words = [f"resume={saved}", f"from={saved}", "seeds=2", "check=true"]
    assert kinds(words, read_request) == [(key, "conflict") for key in ("check", "from", "seeds")]
    assert kinds(["resume=auto", "check=true"], read_request) == [("check", "conflict")]


@pytest.mark.parametrize(
    ("words", "key", "kind", "part"),
    [
        (["seeds=0"], "seeds", "range", ""),
        (["seeds=two"], "seeds", "type", ""),
        (["seeds="], "seeds", "missing", ""),
        (["seeds=2", "seeds=3"], "seeds", "conflict", ""),
        (["seed=4294967295", "seeds=2"], "seeds", "range", "4294967296"),
        (["match_parameters=latest"], "match_parameters", "no_effect", "check=true"),
        (["chek=true"], "chek", "unknown", "Did you mean 'check'?"),
        (["--seeds=3"], "seeds", "unknown", "'seeds'"),
        (["resume=${oc.env:NOT_SET}"], "resume", "type", "NOT_SET"),
        (["--check"], "check", "unknown", "'check'"),
        (["check"], "check", "missing", "key=value"),
        (["sed=3"], "sed", "unknown", "'seed'"),
        (["--cgf"], "cgf", "unknown", "--cfg"),
    ],
)
def test_faults_of_the_commands_own_keys(words: list[str], key: str, kind: str, part: str) -> None:
    [fault] = faults(words, read_request)
    assert (fault.key, fault.kind) == (key, kind)
    assert part in fault.message


@pytest.mark.parametrize("option", ["--info", "--experimental-rerun=x"])
def test_an_option_of_hydras_is_taken_for_no_setting(option: str) -> None:
    [message] = messages(option)
    assert message.endswith("--config-dir FOLDER, -m and --multirun.")


def test_all_faults_at_once(saved: Path) -> None:
    found = messages("optimizer.lrr=3", "seeds=0", f"from={saved}", "modle=mean", "chek=true")
    assert len(found) == 4
    assert not any("+" in fault for fault in found)
    assert sum("Did you mean" in fault for fault in found) == 3


def test_faults_of_a_list_of_arguments_name_the_file(tmp_path: Path) -> None:
    best = write(tmp_path / "best.yaml", {"overrides": ["modle=mean", "seed=x"]})
    found = messages(f"from={best}")
    assert [fault.startswith(f"from={best}: ") for fault in found] == [True, True]


@pytest.mark.parametrize(
    ("text", "key", "kind"),
    [
        ("overrides: model=mean", "overrides", "type"),
        ("overrides: [1]", "overrides", "type"),
        ("a: 1", "from", "unreadable"),
        ("[1, 2]", "from", "unreadable"),
        ("overrides: [seeds=3]", "seeds", "unknown"),
        ("a: [1", "from", "unreadable"),
    ],
)
def test_files_that_hold_no_settings(tmp_path: Path, text: str, key: str, kind: str) -> None:
    file = tmp_path / "best.yaml"
    file.write_text(text)
    assert kinds([f"from={file}"], read_request) == [(key, kind)]


def test_a_value_of_another_type_in_a_file_of_settings(tmp_path: Path) -> None:
    settings = compose([])
    settings["data"]["vectors"] = True
    file = write(tmp_path / "settings.yaml", settings)
    assert kinds([f"from={file}"], read_request) == [("data.vectors", "type")]


@pytest.mark.parametrize("key", ["from", "resume"])
def test_a_folder_that_is_no_run(tmp_path: Path, key: str) -> None:
    for folder in (tmp_path, tmp_path / "x"):
        assert kinds([f"{key}={folder}"], read_request) == [("run", "not_found")]


@pytest.mark.parametrize(
    ("name", "kind"), [("nowhere", "not_found"), ("run (1)", "missing"), ("empty", "not_found"), ("file", "not_found")]
)
def test_a_start_from_no_finished_run_is_refused(name: str, kind: str, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert kinds([f"init_from={tmp_path / name}"], read_request) == [("init_from", kind)]


def test_a_saved_start_that_is_gone_can_be_left_out(saved: Path, tmp_path: Path) -> None:
    settings = compose(["init_from=" + str(tmp_path / "gone")])
    file = write(tmp_path / "settings.yaml", settings)
    assert kinds([f"from={file}"], read_request) == [("init_from", "not_found")]
    assert read_request([f"from={file}", "init_from=null"]).settings.init_from is None


def test_a_resumed_run_is_read_without_its_start(saved: Path, tmp_path: Path) -> None:
    write(saved / "config.yaml", compose(["init_from=" + str(tmp_path / "gone")]))
    assert read_request([f"resume={saved}"]).settings.init_from == str(tmp_path / "gone")


def test_each_seed_trains_each_fold_unless_one_is_chosen() -> None:
    words = ["data=table", "data.train=a.csv", "data.folds=3", "seeds=2", "seed=4"]
    runs = read_request(words).runs()
    assert [(run.seed, run.data["fold"]) for run in runs] == [(4, 0), (4, 1), (4, 2), (5, 0), (5, 1), (5, 2)]
    assert [(run.seed, run.data["fold"]) for run in read_request([*words, "data.fold=1"]).runs()] == [(4, 1), (5, 1)]
