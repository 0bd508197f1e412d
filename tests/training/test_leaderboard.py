"""The leaderboard at a run's end, from run directories written by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sentattn.config.compose import compose, setting_hash
from sentattn.run import Run
from sentattn.training.leaderboard import differences, leaderboard

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


def written(folder: Path, number: int, settings: dict[str, Any], value: float, **changed: Any) -> Run:
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
        "study": None,
        "metrics": {"val/accuracy": value, "test/accuracy": 1 - value, "val/log_loss": value},
        "parameters": {"total": 12345},
        "seconds": {"train": 7.6},
        "data_fingerprint": "f",
    } | changed
    run = Run(path)
    run.write_result(result)
    return run


def ranks(lines: list[str]) -> list[int]:
    return [
        int(words[0])
        for line in lines[2:]
        if not line.endswith("more") and (words := line.lstrip("> ").split()) and words[0].isdecimal()
    ]


def test_a_setting_alone_has_no_leaderboard(tmp_path: Path) -> None:
    written(tmp_path, 1, SETTINGS, 0.9, seed=1)
    assert leaderboard(written(tmp_path, 2, SETTINGS, 0.9)) == []


def test_the_table(tmp_path: Path, variants: dict[str, Any]) -> None:
    written(tmp_path, 1, variants["hops"], 0.9)
    written(tmp_path, 2, variants["hops"], 0.8, seed=1)
    written(tmp_path, 3, variants["mean"], 0.6, metrics={"val/accuracy": 0.6}, seconds={"train": 1.2})
    written(tmp_path, 4, variants["max"], 0.5)
    assert leaderboard(written(tmp_path, 5, SETTINGS, 0.7)) == [
        "4 settings on these rows of demo, by val/accuracy:",
        "      settings                      seeds     val    test  params  train",
        "   1  structured; attention.hops=8      2  0.8500  0.1500   12.3k    8 s",
        ">  2  structured (this run)             1  0.7000  0.3000   12.3k    8 s",
        "   3  mean                              1  0.6000       -   12.3k    1 s",
        "   4  structured, attention=max         1  0.5000  0.5000   12.3k    8 s",
    ]


@pytest.mark.parametrize(
    ("value", "expected", "gap", "rest"),
    [
        (0.99, [1, 2, 3, 4, 5], False, "4 more"),
        (0.45, [1, 2, 3, 4, 5, 6, 7], False, "2 more"),
        (0.25, [1, 2, 3, 4, 5, 7, 8, 9], True, None),
        (0.01, [1, 2, 3, 4, 5, 8, 9], True, None),
    ],
)
def test_the_top_and_the_rows_next_to_the_run_are_shown(
    value: float, expected: list[int], gap: bool, rest: str | None, tmp_path: Path
) -> None:
    for number, other in enumerate([0.8, 0.7, 0.65, 0.6, 0.5, 0.4, 0.3, 0.2]):
        written(tmp_path, number, SETTINGS, other, setting=str(number))
    lines = leaderboard(written(tmp_path, 99, SETTINGS, value))
    assert ranks(lines) == expected
    assert any(line.strip() == "..." for line in lines) is gap
    assert (lines[-1] if lines[-1].endswith("more") else None) == rest
    assert sum(line.startswith(">") for line in lines) == 1


def test_long_settings_fit_80_columns_and_numbers_are_rounded(tmp_path: Path, variants: dict[str, Any]) -> None:
    written(tmp_path, 1, variants["many"] | {"ema_decay": 0.3927794457191059}, 0.9)
    lines = leaderboard(written(tmp_path, 2, SETTINGS, 0.7))
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "0.3928" in text
    assert "0.39277" not in text


def test_trials_of_sweeps_have_no_row(tmp_path: Path, variants: dict[str, Any]) -> None:
    written(tmp_path / "sweeps" / "s" / "trials", 1, variants["hops"], 0.9, study="s")
    written(tmp_path, 2, variants["mean"], 0.9)
    lines = leaderboard(written(tmp_path, 3, SETTINGS, 0.7))
    assert ranks(lines) == [1, 2]
    assert not any("hops" in line for line in lines)


def test_where_less_is_better_the_least_comes_first(tmp_path: Path, variants: dict[str, Any]) -> None:
    objective = {"objective": {"metric": "val/log_loss", "mode": "min"}}
    written(tmp_path, 1, variants["hops"], 0.9)
    lines = leaderboard(written(tmp_path, 2, SETTINGS | objective, 0.7))
    assert lines[2].startswith(">  1")


def test_only_finished_runs_on_the_same_rows_count(tmp_path: Path, variants: dict[str, Any]) -> None:
    others = variants["hops"]
    written(tmp_path, 1, others, 0.9, data_fingerprint="other")
    written(tmp_path, 2, others, 0.9, data="imdb")
    written(tmp_path, 3, others, 0.9, status="failed")
    written(tmp_path, 4, others, 0.9, metrics={"val/loss": 1.0})
    assert leaderboard(written(tmp_path, 5, SETTINGS, 0.7)) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"data": "demo", "data_fingerprint": "f"}'])
def test_damaged_results_are_passed_over(tmp_path: Path, variants: dict[str, Any], text: str) -> None:
    run = written(tmp_path, 1, variants["mean"], 0.9)
    (run.path / "result.json").write_text(text)
    written(tmp_path, 2, variants["hops"], 0.9)
    assert len(leaderboard(written(tmp_path, 3, SETTINGS, 0.7))) == 4


@pytest.mark.parametrize("field", ["metrics", "parameters", "seconds", "seed"])
@pytest.mark.parametrize("value", [None, "x", []])
def test_results_with_a_damaged_field_are_passed_over(
    tmp_path: Path, variants: dict[str, Any], field: str, value: Any
) -> None:
    run = written(tmp_path, 1, variants["mean"], 0.9)
    run.write_result(run.result | {field: value})
    assert leaderboard(written(tmp_path, 3, SETTINGS, 0.7)) == []


@pytest.mark.parametrize("config", ["", "a: [", "model: 3", "{}"])
def test_settings_that_cannot_be_read_are_no_difference(tmp_path: Path, variants: dict[str, Any], config: str) -> None:
    run = written(tmp_path, 1, variants["hops"], 0.9)
    (run.path / "config.yaml").write_text(config)
    assert leaderboard(written(tmp_path, 2, SETTINGS, 0.7))[2].split()[:3] == ["1", "?", "1"]


def test_a_metric_that_is_no_number_comes_last(tmp_path: Path, variants: dict[str, Any]) -> None:
    written(tmp_path, 1, variants["hops"], float("nan"))
    written(tmp_path, 2, variants["mean"], 0.1)
    lines = leaderboard(written(tmp_path, 3, SETTINGS, 0.7))
    assert [line.removeprefix(">").split()[1] for line in lines[2:]] == ["structured", "mean", "structured;"]


def test_of_a_seed_trained_twice_the_later_run_counts(tmp_path: Path, variants: dict[str, Any]) -> None:
    written(tmp_path, 1, variants["hops"], 0.1)
    written(tmp_path, 2, variants["hops"], 0.9)
    first = leaderboard(written(tmp_path, 3, SETTINGS, 0.7))[2]
    assert first.split()[3:5] == ["1", "0.9000"]


def test_the_seeds_of_ones_own_setting_are_one_row(tmp_path: Path, variants: dict[str, Any]) -> None:
    written(tmp_path, 1, variants["mean"], 0.1)
    written(tmp_path, 2, SETTINGS, 0.9, seed=1)
    lines = leaderboard(written(tmp_path, 3, SETTINGS, 0.7))
    assert lines[2].split()[:6] == [">", "1", "structured", "(this", "run)", "2"]
    assert "0.8000" in lines[2]


def test_runs_in_deep_folders_are_found_and_files_inside_runs_are_not(tmp_path: Path, variants: dict[str, Any]) -> None:
    written(tmp_path / "some" / "other" / "folder", 1, variants["hops"], 0.9)
    run = written(tmp_path, 2, SETTINGS, 0.7)
    written(run.path / "wandb", 3, variants["mean"], 0.9)
    assert len(leaderboard(run)) == 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hops", ["attention.hops=8"]),
        ("mean", []),
        ("max", []),
        ("many", ["loss.penalty=1", "optimizer=sgd", "attention.hops=8"]),
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
    written(tmp_path, 1, changed, 0.9)
    text = " ".join(" ".join(leaderboard(written(tmp_path, 2, SETTINGS, 0.7))).split())
    assert text.count("=") == 3
    assert ", 2 more" in text


def test_it_needs_no_torch() -> None:
    program = "import sys, sentattn.training.leaderboard; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
