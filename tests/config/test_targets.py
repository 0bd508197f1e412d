"""Loading what others made runs nothing that it names; classes may move; a label names the parts that differ."""

from __future__ import annotations

import copy
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import sentattn
from sentattn import evaluate, predict
from sentattn.config import targets
from sentattn.config.compose import compose, override, setting_hash
from sentattn.config.groups import Choices
from sentattn.config.parameters import load
from sentattn.config.request import read_request
from sentattn.config.targets import label, slots
from sentattn.errors import RunError, SettingError, UserError
from sentattn.export import __main__ as export
from sentattn.prediction.model import LoadedRun
from sentattn.sweep.config import read_plan

HARMFUL = ["subprocess.getoutput", "os.system", "builtins.exec", "harmful.Attention", "torch.hub.load"]
PLACES = [
    *("model", "model.embedding", "model.encoder", "model.attention", "model.pooling", "model.head"),
    *("data", "loss", "optimizer", "scheduler", "trainer", "logger"),
]
ELSEWHERE = ["objective", "model.attention.hops", "data.path", "tags", "unheard_of"]
"""Places where a class is never named."""


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that appears when anything harmful is run or imported."""
    file = tmp_path / "marker"
    (tmp_path / "harmful.py").write_text(f"open({str(file)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MARKER", "secret")
    yield file
    sys.modules.pop("harmful", None)
    assert not file.exists()


@pytest.fixture
def loaded(tiny_run: LoadedRun, tmp_path: Path) -> Path:
    """A copy of a finished run."""
    return Path(shutil.copytree(tiny_run.path, tmp_path / "loaded"))


def poisoned(settings: Mapping[str, Any], place: str, target: str, marker: Path) -> dict[str, Any]:
    """Settings with a harmful `_target_` at a place."""
    changed: dict[str, Any] = copy.deepcopy(dict(settings))
    *parents, last = place.split(".")
    node = changed
    for part in parents:
        node = node[part]
    inner = node.get(last)
    harm = {
        "_target_": target,
        "cmd": f"touch {marker}",
        "command": f"touch {marker}",
        "object": f"open('{marker}','w')",
    }
    node[last] = [harm] if isinstance(inner, list) else {**(inner if isinstance(inner, dict) else {}), **harm}
    return changed


def write(file: Path, content: Any) -> Path:
    file.write_text(yaml.safe_dump(content))
    return file


def kinds(error: UserError) -> set[str]:
    return {fault.kind for fault in error.faults}


@pytest.mark.parametrize("target", HARMFUL)
@pytest.mark.parametrize("place", [*PLACES, *ELSEWHERE])
def test_settings_that_are_loaded_run_nothing(place: str, target: str, tmp_path: Path, marker: Path) -> None:
    file = write(tmp_path / "config.yaml", poisoned(compose([]), place, target, marker))
    for argument in (f"from={file}", f"from={tmp_path}", f"resume={tmp_path}"):
        with pytest.raises(SettingError) as caught:
            read_request([argument, "seed=3"] if argument.startswith("from") else [argument])
        [fault] = caught.value.faults
        assert (fault.kind, fault.key.removesuffix("[0]")) == ("unsafe", place)
        assert "trust=true" in fault.message
    with pytest.raises(SettingError) as caught:
        override(yaml.safe_load(file.read_text()), ["data.limit=3"], only=["data"])
    assert kinds(caught.value) == {"unsafe"}


@pytest.mark.parametrize("target", HARMFUL)
@pytest.mark.parametrize("place", [place for place in PLACES if place.startswith("model")])
def test_a_model_that_is_loaded_runs_nothing(place: str, target: str, loaded: Path, marker: Path) -> None:
    config = yaml.safe_load((loaded / "model" / "config.yaml").read_text())
    write(loaded / "model" / "config.yaml", poisoned(config, place, target, marker))
    with pytest.raises(SettingError) as caught:
        sentattn.load(loaded).predict(["Good."])
    assert kinds(caught.value) == {"unsafe"}


def test_no_command_runs_what_a_folder_names(loaded: Path, marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = yaml.safe_load((loaded / "model" / "config.yaml").read_text())
    write(loaded / "model" / "config.yaml", poisoned(config, "model.attention", "subprocess.getoutput", marker))
    for main, more in ((predict.main, ["text=Good."]), (evaluate.main, []), (export.main, [])):
        assert main([f"run={loaded}", *more]) == 2
        assert "trust=true" in capsys.readouterr().err


def test_an_evaluation_runs_nothing_that_the_settings_name(loaded: Path, marker: Path) -> None:
    settings = yaml.safe_load((loaded / "config.yaml").read_text())
    for place in PLACES:
        write(loaded / "config.yaml", poisoned(settings, place, "os.system", marker))
        assert evaluate.main([f"run={loaded}"]) == 2


def test_attributes_of_modules_of_ours_are_no_way_out(marker: Path) -> None:
    settings = compose([])
    for target in (
        "sentattn.models.attention.base.torch.hub.load",
        "sentattn.models.attention.base.Tensor",
        3,
        None,
        [],
    ):
        settings["model"]["attention"]["_target_"] = target
        with pytest.raises(SettingError):
            targets.admit(settings, Choices.of())


@pytest.mark.parametrize(
    ("key", "text"),
    [("group", "${oc.env:MARKER}"), ("output_dir", "${oc.env:MARKER}"), ("tags", ["${oc.env:MARKER}"])],
)
def test_references_in_what_is_loaded_are_texts(key: str, text: Any, tmp_path: Path, marker: Path) -> None:
    file = write(tmp_path / "config.yaml", compose([]) | {key: text})
    assert read_request([f"from={file}"]).settings[key] == text
    assert read_request([f"from={file}", "model=transformer"]).settings[key] == text


def test_a_reference_cannot_hide_in_a_key_with_a_dot(tmp_path: Path, marker: Path) -> None:
    file = write(tmp_path / "config.yaml", compose([]) | {"a.b": {"c": "${oc.env:MARKER}"}})
    with pytest.raises(SettingError) as caught:
        read_request([f"from={file}"])
    assert not any("secret" in message for message in caught.value.messages)


@pytest.mark.parametrize(
    "words",
    [
        ["--config-dir=FOLDER", "model/attention=evil"],
        ["--config-dir", "FOLDER", "model/attention=evil"],
        ["model.attention._target_=harmful.Attention"],
        ["model={_target_: harmful.Attention}"],
        ["+model.attention._target_=harmful.Attention"],
        ["tags=[{_target_:harmful.Attention}]"],
        ["group=${oc.env:MARKER}"],
        ["trust=true"],
        ["hydra.searchpath=[FOLDER]"],
        ["model=../../evil"],
    ],
)
def test_a_list_of_arguments_runs_nothing(words: list[str], tmp_path: Path, marker: Path) -> None:
    folder = tmp_path / "conf"
    (folder / "model" / "attention").mkdir(parents=True)
    write(folder / "model" / "attention" / "evil.yaml", {"_target_": "harmful.Attention"})
    file = write(tmp_path / "best.yaml", {"overrides": [word.replace("FOLDER", str(folder)) for word in words]})
    with pytest.raises(SettingError) as caught:
        read_request([f"from={file}"])
    assert not any("secret" in message for message in caught.value.messages)


def test_a_file_of_yaml_constructs_no_objects(tmp_path: Path, loaded: Path, marker: Path) -> None:
    text = f"!!python/object/apply:os.system ['touch {marker}']\n"
    (tmp_path / "best.yaml").write_text(f"overrides: {text}")
    with pytest.raises(SettingError):
        read_request([f"from={tmp_path / 'best.yaml'}"])
    (loaded / "config.yaml").write_text(f"model: {text}")
    (loaded / "model" / "config.yaml").write_text(f"model: {text}")
    for attribute in ("settings", "classifier"):
        with pytest.raises(RunError):
            getattr(sentattn.load(loaded), attribute)


@pytest.mark.parametrize("word", ["--config-dir=FOLDER", "trust=true", "model.attention._target_=harmful.Attention"])
def test_a_sweep_file_runs_nothing(word: str, tmp_path: Path, marker: Path) -> None:
    folder = tmp_path / "conf" / "model" / "attention"
    folder.mkdir(parents=True)
    write(folder / "evil.yaml", {"_target_": "harmful.Attention"})
    words = [word.replace("FOLDER", str(tmp_path / "conf")), "model/attention=evil"]
    file = write(tmp_path / "sweep.yaml", {"overrides": words, "space": {"optimizer.lr": "interval(0,1)"}})
    with pytest.raises(SettingError):
        read_plan([f"sweep={file}"])


class Harmful:
    """Runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


def test_pickles_in_place_of_the_files_of_a_run_are_not_run(loaded: Path, marker: Path) -> None:
    from sentattn.training.checkpoint import read_checkpoint

    checkpoint = loaded / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir(exist_ok=True)
    for file in (checkpoint, *sorted((loaded / "model").iterdir())):
        torch.save({"state_dict": Harmful(marker)}, file)
    with pytest.raises(RunError):
        read_checkpoint(checkpoint)
    with pytest.raises(RunError):
        sentattn.load(loaded).predict(["Good."])


OWN = """
import torch
from sentattn.models.attention.base import Attended, Attention, masked_softmax
class Mine(Attention):
    def __init__(self, *, dim: int, hops: int = 1) -> None:
        super().__init__()
        self.out_dim, self.hops = dim, hops
        self.queries = torch.nn.Parameter(torch.ones(hops, dim))
    def forward(self, states, mask):
        weights = masked_softmax(self.queries @ states.transpose(1, 2), mask)
        return Attended(weights @ states, weights)
"""


def test_classes_of_ones_own_are_loaded_where_the_user_says_so(
    loaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_attentions.py").write_text(OWN)
    folder = tmp_path / "conf"
    (folder / "model" / "attention").mkdir(parents=True)
    write(folder / "model" / "attention" / "mine.yaml", {"_target_": "my_attentions.Mine", "hops": 2})
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = compose([f"--config-dir={folder}", "model/attention=mine"])
    file = write(tmp_path / "config.yaml", settings)
    with pytest.raises(SettingError) as caught:
        read_request([f"from={file}"])
    assert [(fault.key, fault.kind) for fault in caught.value.faults] == [("model.attention", "unsafe")]
    assert read_request([f"from={file}", f"--config-dir={folder}"]).settings == settings
    assert read_request([f"from={file}", "trust=true"]).settings == settings

    from sentattn.build import build_model
    from sentattn.prediction.model import Classifier

    own = Classifier.load(loaded / "model")
    config = own.config | {"model": {**own.config["model"], "attention": settings["model"]["attention"]}}
    model = build_model(config["model"], num_embeddings=len(own.tokenizer), classes=len(own.labels))
    Classifier(model=model, tokenizer=own.tokenizer, labels=own.labels, config=config).save(loaded / "model")
    with pytest.raises(SettingError):
        sentattn.load(loaded).predict(["Good."])
    assert len(sentattn.load(loaded, trust=True).predict(["Good."])) == 1
    assert predict.main([f"run={loaded}", "text=Good.", "trust=true"]) == 0


def test_trust_without_anything_to_load_has_no_effect() -> None:
    with pytest.raises(SettingError):
        read_request(["trust=true"])


def test_a_class_that_does_not_fit_its_slot_is_refused_before_it_is_called() -> None:
    from sentattn.build import build_model

    node = compose([])["model"]
    node["attention"] = {"_target_": "subprocess.getoutput", "cmd": "exit 1"}
    with pytest.raises(SettingError) as caught:
        build_model(node, num_embeddings=3, classes=2)
    assert kinds(caught.value) == {"type"}


def test_every_class_that_conf_names_is_there_and_in_its_slot() -> None:
    choices = Choices.of()
    for slot in PLACES:
        named = targets.named(slot, choices)
        assert named
        assert all(callable(load(str(target))) for target in named)


HASHES = {
    "": "99863b3f643d",
    "model=mean data=imdb data.val_by=row": "93bd4cae75f4",
    "model=transformer data=imdb data.val_by=row optimizer=adamw scheduler=cosine": "66fe297aa0ca",
    "experiment=gluon_yelp faithful=true": "bfd026cc8844",
    "data=table data.train=reviews.csv data.text=review data.label=stars model=relation loss.class_weights=balanced"
    " model.attention.window=null": "a959029b9bb5",
    "model/embedding=ngrams model=cnn optimizer=sgd scheduler=step trainer.max_epochs=3": "542a200d51ea",
}
"""Of the revision before classes began to move."""


@pytest.mark.parametrize("line", HASHES)
def test_a_setting_is_the_same_as_before_classes_moved(line: str) -> None:
    settings = compose([*line.split(), "trainer.precision=32-true"])
    del settings["data"]["normalize"]  # words were not normalized then
    assert setting_hash(settings) == HASHES[line]


def test_a_frozen_attention_is_another_setting_and_a_free_one_that_of_older_runs() -> None:
    older = compose([])
    assert "freeze_attention" not in older["model"]
    assert setting_hash(compose(["model.freeze_attention=false"])) == setting_hash(older)
    frozen = compose(["model.freeze_attention=true"])
    assert setting_hash(frozen) != setting_hash(older)
    assert label(frozen) != label(older) == label(compose(["model.freeze_attention=false"]))


def test_validation_by_row_is_the_setting_of_older_runs() -> None:
    by_group, by_row = (compose(["data=imdb", f"data.val_by={by}"]) for by in ("group", "row"))
    older = copy.deepcopy(by_row)
    del older["data"]["val_by"]
    assert setting_hash(older) == setting_hash(by_row) != setting_hash(by_group) == setting_hash(compose(["data=imdb"]))


def test_a_class_that_moved_is_found_and_hashed_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    new = compose(["data=imdb"])
    for table, pair in ((targets.MOVED, ("sentattn.old.Imdb", new["data"]["_target_"])),):
        monkeypatch.setitem(table, *pair)
        monkeypatch.setitem(targets.STABLE, pair[1], pair[0])
    old = copy.deepcopy(new)
    old["data"]["_target_"] = "sentattn.old.Imdb"
    assert setting_hash(old) == setting_hash(new)
    assert targets.admit(old, Choices.of()) == new
    assert override(old, ["seed=1"]) == new | {"seed": 1}


def test_a_damaged_model_is_named(loaded: Path) -> None:
    write(loaded / "model" / "config.yaml", {"model": {"attention": 3}})
    with pytest.raises(RunError):
        sentattn.load(loaded).predict(["Good."])


@pytest.mark.parametrize("name", Choices.of().names("model"))
def test_a_variant_as_it_is_has_its_name_alone(name: str) -> None:
    assert label(compose([f"model={name}"])) == name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["model/attention=max"], "structured, attention=max"),
        (["model=feedforward", "model/encoder=cnn"], "feedforward, encoder=cnn"),
        (["model=mean", "model/embedding=ngrams"], "mean, embedding=ngrams"),
        (
            ["model/attention=feedforward", "model/encoder=lstm", "model/pooling=mean"],
            "structured, encoder=lstm, attention=feedforward, pooling=mean",
        ),
        (["model.attention.hops=8", "model.embedding.size=20"], "structured"),
        (["model/wide=attended_ngrams"], "structured, wide=attended_ngrams"),
        (["model/wide=ngrams", "model.wide.attend=false"], "structured, wide=ngrams"),
        (
            ["model/wide=attended_ngrams", "model.wide.attend=uniform"],
            "structured, wide=attended_ngrams, wide.attend=uniform",
        ),
        (
            ["model/wide=attended_ngrams", "model.wide.attend=false"],
            "structured, wide=attended_ngrams, wide.attend=false",
        ),
    ],
)
def test_each_exchanged_part_is_named(words: list[str], expected: str) -> None:
    assert label(compose(words)) == expected


def test_a_part_of_a_users_own_is_called_by_its_class() -> None:
    settings = compose([])
    settings["model"]["attention"] = {"_target_": "my.folder.Query", "hops": 2}
    assert label(settings) == "structured, attention=Query"
    assert slots(settings)["attention"] == "Query"


def test_a_variant_of_a_users_own_has_its_name() -> None:
    settings = compose(["model/attention=max"])
    settings["model"]["name"] = "mine"
    assert label(settings) == "mine"


@pytest.mark.parametrize("settings", [{}, {"model": 3}, {"model": {}}, {"model": None}])
def test_settings_without_a_model_have_no_name(settings: dict[str, Any]) -> None:
    assert label(settings) == "?"


def test_the_parts_of_a_variant() -> None:
    assert slots(compose(["model=cnn"])) == {
        "embedding": "words",
        "encoder": "cnn",
        "attention": "max",
        "pooling": "flatten",
        "wide": "none",
    }
