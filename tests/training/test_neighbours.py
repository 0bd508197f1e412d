"""The leaderboard of a run's neighbours, from run directories made by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sentattn.config.compose import compose, setting_hash
from sentattn.run import Run
from sentattn.training.neighbours import differences, neighbours, print_neighbours

SETTINGS = compose(["data=demo"])


@pytest.fixture(scope="module")
def variants() -> dict[str, dict[str, Any]]:
    typed = {
        "hops": ["model.attention.hops=8"],
        "mean": ["model=mean"],
        "max": ["model/attention=max"],
        "many": ["model.attention.hops=8", "optimizer=sgd", "loss.penalty=1.0", "seed=9", "scheduler=one_cycle"],
        "small": ["model=mean", "model.embedding.size=50"],
    }
    return {name: compose(words) for name, words in typed.items()}


def made(folder: Path, number: int, settings: dict[str, Any], value: float, **changed: Any) -> tuple[Run, Any]:
    """A finished run."""
    path = folder / f"20260101-{number:06}-abcd"
    path.mkdir(parents=True)
    settings = settings | {"output_dir": str(folder), "seed": changed.pop("seed", settings["seed"])}
    (path / "config.yaml").write_text(yaml.safe_dump(settings))
    result = {
        "status": "finished",
        "setting": setting_hash(settings),
        "model": settings["model"]["name"],
        "data": "demo",
        "seed": settings["seed"],
        "metrics": {"val/accuracy": value, "test/accuracy": 1 - value, "val/log_loss": value},
        "parameters": {"total": 12345},
        "seconds": {"train": 7.6},
        "data_fingerprint": "f",
    } | changed
    run = Run(path)
    run.write_result(result)
    return run, result


def test_a_run_alone_has_no_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, 1, SETTINGS, 0.9, seed=1)
    print_neighbours(*made(tmp_path, 2, SETTINGS, 0.9))
    assert capsys.readouterr().out == ""


def test_the_table(tmp_path: Path, variants: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, 1, variants["hops"], 0.9)
    made(tmp_path, 2, variants["hops"], 0.8, seed=1)
    made(tmp_path, 3, variants["mean"], 0.6, metrics={"val/accuracy": 0.6}, seconds={"train": 1.2})
    print_neighbours(*made(tmp_path, 4, SETTINGS, 0.7))
    assert capsys.readouterr().out == (
        "3 settings on these rows of demo, by val/accuracy:\n"
        "      model       differs by        seeds  val/accuracy  test/accuracy  parameters  train s\n"
        "   1  structured  attention.hops=8      2        0.8500         0.1500      12,345        8\n"
        ">  2  structured  (this run)            1        0.7000         0.3000      12,345        8\n"
        "   3  mean                              1        0.6000              -      12,345        1\n"
    )


@pytest.mark.parametrize(
    ("value", "ranks", "rest"),
    [
        (0.99, [1, 2, 3, 4, 5], "  4 more"),
        (0.55, [3, 4, 5, 6, 7], "  4 more; the best, structured, has val/accuracy 0.8000"),
        (0.01, [5, 6, 7, 8, 9], "  4 more; the best, structured, has val/accuracy 0.8000"),
    ],
)
def test_five_rows_around_the_run(tmp_path: Path, value: float, ranks: list[int], rest: str) -> None:
    for hops, other in enumerate([0.8, 0.7, 0.65, 0.6, 0.5, 0.4, 0.3, 0.2]):
        made(tmp_path, hops, SETTINGS, other, setting=str(hops))
    lines = neighbours(*made(tmp_path, 99, SETTINGS, value))
    assert [int(line.removeprefix(">").split()[0]) for line in lines[2:-1]] == ranks
    assert lines[-1] == rest
    assert sum(line.startswith(">") for line in lines) == 1


def test_where_less_is_better_the_least_comes_first(tmp_path: Path, variants: dict[str, Any]) -> None:
    objective = {"objective": {"metric": "val/log_loss", "mode": "min"}}
    made(tmp_path, 1, variants["hops"], 0.9)
    lines = neighbours(*made(tmp_path, 2, SETTINGS | objective, 0.7))
    assert lines[2].startswith(">  1")


def test_only_finished_runs_on_the_same_rows_count(tmp_path: Path, variants: dict[str, Any]) -> None:
    others = variants["hops"]
    made(tmp_path, 1, others, 0.9, data_fingerprint="other")
    made(tmp_path, 2, others, 0.9, data="imdb")
    made(tmp_path, 3, others, 0.9, status="failed")
    made(tmp_path, 4, others, 0.9, metrics={"val/loss": 1.0})
    assert neighbours(*made(tmp_path, 5, SETTINGS, 0.7)) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"data": "demo", "data_fingerprint": "f"}'])
def test_damaged_results_are_passed_over(tmp_path: Path, variants: dict[str, Any], text: str) -> None:
    run, _ = made(tmp_path, 1, variants["mean"], 0.9)
    (run.path / "result.json").write_text(text)
    made(tmp_path, 2, variants["hops"], 0.9)
    assert len(neighbours(*made(tmp_path, 3, SETTINGS, 0.7))) == 4


@pytest.mark.parametrize("field", ["metrics", "parameters", "seconds", "seed"])
@pytest.mark.parametrize("value", [None, "x", []])
def test_results_with_a_damaged_field_are_passed_over(
    tmp_path: Path, variants: dict[str, Any], field: str, value: Any
) -> None:
    run, result = made(tmp_path, 1, variants["mean"], 0.9)
    (run.path / "result.json").write_text(json.dumps(result | {field: value}))
    assert neighbours(*made(tmp_path, 3, SETTINGS, 0.7)) == []


@pytest.mark.parametrize("config", ["", "a: [", "model: 3", "{}"])
def test_settings_that_cannot_be_read_are_no_difference(tmp_path: Path, variants: dict[str, Any], config: str) -> None:
    run, _ = made(tmp_path, 1, variants["hops"], 0.9)
    (run.path / "config.yaml").write_text(config)
    assert neighbours(*made(tmp_path, 2, SETTINGS, 0.7))[2].split()[2] == "?"


def test_a_figure_that_is_no_number_comes_last(tmp_path: Path, variants: dict[str, Any]) -> None:
    made(tmp_path, 1, variants["hops"], float("nan"))
    made(tmp_path, 2, variants["mean"], 0.1)
    lines = neighbours(*made(tmp_path, 3, SETTINGS, 0.7))
    assert [line.removeprefix(">").split()[1] for line in lines[2:]] == ["structured", "mean", "structured"]


def test_of_a_seed_trained_twice_the_later_run_counts(tmp_path: Path, variants: dict[str, Any]) -> None:
    made(tmp_path, 1, variants["hops"], 0.1)
    made(tmp_path, 2, variants["hops"], 0.9)
    first = neighbours(*made(tmp_path, 3, SETTINGS, 0.7))[2]
    assert first.split()[3:5] == ["1", "0.9000"]


def test_the_seeds_of_ones_own_setting_are_one_row(tmp_path: Path, variants: dict[str, Any]) -> None:
    made(tmp_path, 1, variants["mean"], 0.1)
    made(tmp_path, 2, SETTINGS, 0.9, seed=1)
    lines = neighbours(*made(tmp_path, 3, SETTINGS, 0.7))
    assert lines[2].split()[:6] == [">", "1", "structured", "(this", "run)", "2"]
    assert "0.8000" in lines[2]


def test_runs_of_a_sweep_are_found_and_files_inside_runs_are_not(tmp_path: Path, variants: dict[str, Any]) -> None:
    made(tmp_path / "sweeps" / "s" / "trials", 1, variants["hops"], 0.9)
    run, result = made(tmp_path, 2, SETTINGS, 0.7)
    made(run.path / "wandb", 3, variants["mean"], 0.9)
    assert len(neighbours(run, result)) == 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hops", ["attention.hops=8"]),
        ("mean", []),
        ("max", ["attention=max"]),
        ("many", ["loss.penalty=1.0", "optimizer=sgd", "attention.hops=8"]),
        ("small", ["embedding.size=50"]),
    ],
)
def test_differences_as_they_would_be_typed(variants: dict[str, Any], name: str, expected: list[str]) -> None:
    assert sorted(differences(SETTINGS, variants[name])) == sorted(expected)


def test_what_a_class_of_ones_own_is_called(variants: dict[str, Any]) -> None:
    own = SETTINGS | {"optimizer": {"_target_": "my.module.Lion"}}
    assert differences(SETTINGS, own) == ["optimizer=Lion"]


def test_many_differences_are_cut(tmp_path: Path, variants: dict[str, Any]) -> None:
    changed = variants["many"] | {"ema_decay": 0.5, "weight_decay_on": "attention_and_head"}
    made(tmp_path, 1, changed, 0.9)
    line = neighbours(*made(tmp_path, 2, SETTINGS, 0.7))[2]
    assert line.count("=") == 3
    assert ", 2 more " in line


def test_it_needs_no_torch() -> None:
    program = "import sys, sentattn.training.neighbours; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
