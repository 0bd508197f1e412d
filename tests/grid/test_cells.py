"""The cells of a grid: what is read from a command line with several values, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from refusals import assert_refused, faults_of, kinds

from sentattn.grid import read_cells
from sentattn.prediction.model import LoadedRun


def names(*words: str) -> list[str]:
    return [cell.name for cell in read_cells(words)[0]]


def faults(*words: str) -> list[tuple[str, str]]:
    return kinds(words, read_cells)


def test_all_settings_with_the_first_seed_come_first(tmp_path: Path) -> None:
    cells, _ = read_cells(["model=mean,structured", "seeds=2", "seed=4", f"output_dir={tmp_path}", "trainer=default"])
    assert [cell.name for cell in cells] == [
        "model=mean, seed=4",
        "model=structured, seed=4",
        "model=mean, seed=5",
        "model=structured, seed=5",
    ]
    assert (cells[2].settings["model"]["name"], cells[2].settings["seed"]) == ("mean", 5)


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("optimizer.lr=choice(0.1,1e-3)", [0.1, 0.001]),
        ("optimizer.lr=range(0.1,0.4,0.1)", [0.1, 0.2, 0.3]),
        ("optimizer.lr=0.5", [0.5]),
    ],
)
def test_the_ways_to_write_several_values(word: str, values: list[float]) -> None:
    cells, _ = read_cells([word])
    assert [cell.settings["optimizer"]["lr"] for cell in cells] == values


def test_a_cast_of_a_list_is_no_range() -> None:
    assert faults("model.attention.hops=int(1,4)") == [("model.attention.hops", "range")]
    assert names("model.attention.hops=int(interval(1,3))") == [f"hops={hops}, seed=0" for hops in (1, 2, 3)]


def test_lists_and_choices_by_pattern() -> None:
    cells, _ = read_cells(["loss.class_weights=[1,2],balanced"])
    assert [cell.settings["loss"]["class_weights"] for cell in cells] == [[1, 2], "balanced"]
    assert names("model=glob(lstm*)") == [f"model={name}, seed=0" for name in ("lstm", "lstm_max", "lstm_mean")]


def test_the_first_cell_over_an_encoder_caches_the_layers_of_all() -> None:
    words = ["model=pretrained", "model.embedding.name=a/one,b/two", "model.embedding.layer=4,-1"]
    cells, _ = read_cells(words)
    assert [cell.settings["model"]["embedding"]["cache_layers"] for cell in cells] == [[-1, 4]] * 4
    cells, _ = read_cells(["model=pretrained", "model.embedding.name=a/one", "model.embedding.frozen=false,true"])
    assert [cell.settings["model"]["embedding"]["cache_layers"] for cell in cells] == [[], [-1]]


def test_encoders_and_data_sets_are_compared() -> None:
    cells, _ = read_cells(["model=pretrained", "model.embedding.name=a/one,b/two"])
    assert [cell.settings["data"]["tokenizer"] for cell in cells] == ["a/one", "b/two"]
    cells, _ = read_cells(["model.embedding.name=choice(one,two)", "model=pretrained"])
    assert [cell.settings["model"]["embedding"]["name"] for cell in cells] == ["one", "two"]


def test_equal_cells_are_one() -> None:
    assert names("seed=0,1", "seeds=2") == ["seed=0", "seed=1", "seed=2"]
    assert names("optimizer.lr=1,1.0") == ["lr=1, seed=0"]


def test_the_keys_of_the_slots_are_no_settings() -> None:
    cells, options = read_cells(["slots=3", "slots_per_gpu=2", "threads=1"])
    assert options == {"slots": 3, "slots_per_gpu": 2}
    assert cells[0].settings["threads"] == 1


def test_the_faults_of_all_cells_at_once_with_the_closest_spelling() -> None:
    found = faults_of(lambda: read_cells(["model=structurd,mean", "optimzer.lr=0.1,0.2", "seeds=0"]))
    assert {(fault.key, fault.kind) for fault in found} >= {
        ("model", "unknown"),
        ("optimzer.lr", "unknown"),
        ("seeds", "range"),
    }
    messages = "\n".join(fault.message for fault in found)
    assert "Did you mean 'structured'?" in messages
    assert "Did you mean 'optimizer.lr'?" in messages


def test_a_setting_that_some_cells_do_not_have_is_refused_with_these_cells() -> None:
    words = ["model=structured,mean", "model.attention.hops=2"]
    assert_refused(lambda: read_cells(words), "model.attention.hops", "unknown", "with model=mean: ")


@pytest.mark.parametrize(
    ("word", "key", "kind"),
    [
        ("--cfg|job", "--cfg job", "unsupported"),
        ("check=true", "check", "unsupported"),
        ("resume=auto", "resume", "unsupported"),
        ("seeds=2,3", "seeds", "unsupported"),
        ("logger=csv,none", "logger", "no_effect"),
        ("trainer.accelerator=cpu,gpu", "trainer.accelerator", "no_effect"),
        ("trainer=default,ddp", "trainer.devices", "unsupported"),
        ("trainer=ddp", "trainer.devices", "unsupported"),
        ("optimizer.lr=interval(0.1,1)", "optimizer.lr", "range"),
        ("model=chioce(a,b)", "model", "range"),
        ("model.attention.hops=4,choice(4,8)", "model.attention.hops", "range"),
        ("slots=0", "slots", "range"),
    ],
)
def test_what_a_grid_cannot_have(word: str, key: str, kind: str) -> None:
    assert faults(*word.split("|")) == [(key, kind)]


def test_a_setting_that_is_given_twice() -> None:
    assert ("model", "conflict") in faults("model=mean,structured", "model=lstm")


def test_settings_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "best.yaml"
    file.write_text("overrides: [model=structured, model.attention.hops=7]\n")
    cells, _ = read_cells([f"from={file}", "loss.penalty=0,1"])
    assert [cell.settings["model"]["attention"]["hops"] for cell in cells] == [7, 7]


@pytest.fixture
def latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_run: LoadedRun) -> str:
    """The newest run under `outputs/`."""
    monkeypatch.chdir(tmp_path)
    path = Path("outputs", "demo", "structured", "20260101-000000-aaaa")
    shutil.copytree(tiny_run.path, path)
    return str(path)


def test_all_cells_start_from_the_run_that_was_the_latest(latest: str) -> None:
    cells, _ = read_cells(["init_from=latest", "model=mean,structured"])
    assert [cell.settings["init_from"] for cell in cells] == [latest, latest]


def test_cells_start_from_different_runs(latest: str) -> None:
    shutil.copytree(latest, "other")
    cells, _ = read_cells([f"init_from=choice({latest},other)", "seeds=2"])
    assert [cell.settings["init_from"] for cell in cells] == [latest, "other"] * 2


def test_folds_are_cells(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nfine,good\n")
    words = ["model=mean,structured", "data=table", f"data.train={tmp_path / 'a.csv'}"]
    assert names(*words, "data.folds=2", "seeds=2")[:4] == [
        "model=mean, fold=0, seed=0",
        "model=structured, fold=0, seed=0",
        "model=mean, fold=1, seed=0",
        "model=structured, fold=1, seed=0",
    ]
    assert len(names(*words, "data.folds=2", "seeds=2")) == 8
    assert names(*words[1:], "data.folds=2", "data.fold=1") == ["fold=1, seed=0"]
    cells, _ = read_cells([*words[1:], "data.folds=2,3"])
    assert [cell.name for cell in cells] == [
        f"folds={folds}, fold={fold}, seed=0" for fold, folds in ((0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    ]
    assert (cells[2].settings["data"]["folds"], cells[2].settings["data"]["fold"]) == (2, 1)
