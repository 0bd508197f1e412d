"""Plans: what is in one, which runs it names, what is said of what was added."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest
from refusals import assert_refused, faults_of, refused
from run_folders import PLAN, make_run, make_seeds, write_plan

from sentattn.compare.__main__ import main
from sentattn.compare.comparison import Comparison, read_comparisons
from sentattn.compare.plan import apply, read_plan

SIDES = (["model=structured"], ["model=lstm_mean"], ["model=structured", "model.freeze_attention=true"])


def train(folder: Path, *, seeds: int = 3) -> Path:
    for side in SIDES:
        for seed in range(seeds):
            make_run(folder / "outputs", *side, seed=seed, rows=400, data_fingerprint="known")
    return folder / "outputs"


def applied(folder: Path, file: Path) -> Comparison:
    """Applies a plan to the runs in a folder."""
    return apply(read_plan(file), read_comparisons([folder / "outputs"], split="test")[0], folder / "tests")[0]


@pytest.mark.parametrize(
    ("changes", "key", "kind"),
    [
        ({"margn": 1}, "margn", "unknown"),
        ({"margin": None}, "margin", "missing"),
        ({"margin": -1}, "margin", "range"),
        ({"metric": 1}, "metric", "type"),
        ({"split": "train"}, "split", "range"),
        ({"seeds": [0, 1]}, "seeds", "range"),
        ({"seeds": [0, 1, 1]}, "seeds", "range"),
        ({"seeds": "0"}, "seeds", "type"),
        ({"base": ["structured"]}, "base", "type"),
        ({"pairs": []}, "pairs", "missing"),
        ({"pairs": [{"a": {}, "b": {}, "c": {}}]}, "pairs[0]", "type"),
        ({"pairs": [{"a": {}}]}, "pairs[0]", "type"),
        ({"pairs": [{"a": "x", "b": {}}]}, "pairs[0]", "type"),
        ({"pairs": ["x"]}, "pairs[0]", "type"),
    ],
)
def test_a_plan_is_strict(changes: dict[str, Any], key: str, kind: str, tmp_path: Path) -> None:
    assert (key, kind) in refused(lambda: read_plan(write_plan(tmp_path, **changes)))


@pytest.mark.parametrize("text", ["", "[", "- a", "{", "[" * 5000])
def test_a_file_that_is_no_plan_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    for path in (file, tmp_path / "none.yaml"):
        [fault] = faults_of(lambda path=path: read_plan(path))  # type: ignore[misc]
        file.write_text(fault.message.split("An example:\n")[1])
        assert len(read_plan(file).content["pairs"]) == 2


def test_a_setting_that_cannot_be_is_named_with_its_place(tmp_path: Path) -> None:
    file = write_plan(tmp_path, pairs=[{"a": {"model.freeze": True}, "b": {}}])
    train(tmp_path)
    assert_refused(lambda: applied(tmp_path, file), "model.freeze", "unknown", "pairs[0].a")


def test_its_pairs_are_the_family_with_its_seeds_and_the_rest_is_said(tmp_path: Path) -> None:
    outputs = train(tmp_path)
    assert not any("In no declared" in title for title, _ in applied(tmp_path, write_plan(tmp_path)).messages)
    make_run(outputs, "model=structured", seed=7, rows=400)
    make_seeds(outputs, {"mean": 0.8}, rows=400)
    comparison = applied(tmp_path, write_plan(tmp_path))
    tested = comparison.tests
    family = [pair for pair in tested if pair.declared]
    names = [frozenset((pair.first.name, pair.second.name)) for pair in tested]
    assert len(set(names)) == len(names) > len(family)  # no pair of the plan is exploratory too
    assert [(one.first.name, one.second.name) for one in family] == [
        ("structured", "lstm_mean"),
        ("structured", "structured, frozen attention"),
    ]
    assert all([run.seed for run in side.runs] == [0, 1, 2] for one in family for side in (one.first, one.second))
    blocks = comparison.messages
    assert read_plan(tmp_path / "plan.yaml").digest in blocks[0][0]
    [outside] = [names for title, names in blocks if title.startswith("In no declared pair")]
    assert outside == ["mean"]


def test_missing_runs_are_one_message_with_the_commands_that_train_them(tmp_path: Path) -> None:
    train(tmp_path, seeds=2)
    [fault] = faults_of(lambda: applied(tmp_path, write_plan(tmp_path, seeds=[0, 2, 3])))
    assert (fault.key, fault.kind) == ("plan", "missing")
    commands = [line.strip() for line in fault.message.splitlines() if "sentattn.train" in line]
    assert len(commands) == len(set(commands))
    assert "python -m sentattn.train -m model=structured data=demo model/attention=uniform seed=2,3" in commands


def test_a_hash_is_that_of_the_content(tmp_path: Path) -> None:
    file = write_plan(tmp_path)
    digest = read_plan(file).digest
    file.write_text("# a comment\n" + file.read_text())
    assert read_plan(file).digest == digest
    assert read_plan(write_plan(tmp_path, margin=0.4)).digest != digest


def test_the_settings_and_the_data_have_a_hash_too(tmp_path: Path) -> None:
    outputs = train(tmp_path)
    file = write_plan(tmp_path)
    first, again = (applied(tmp_path, file).plan for _ in range(2))
    assert first
    assert again
    assert first.experiment == again.experiment
    assert first.experiment in first.title
    for result in outputs.glob("*/*/*/result.json"):
        result.write_text(result.read_text().replace('"known"', '"other"', 1))
    other = applied(tmp_path, file).plan
    assert other
    assert other.experiment != first.experiment


def test_tests_of_the_same_rows_by_other_plans_are_counted(tmp_path: Path) -> None:
    train(tmp_path)
    for _ in range(2):  # the same plan is no other one
        assert not any("tested before" in title for title, _ in applied(tmp_path, write_plan(tmp_path)).messages)
    second = applied(tmp_path, write_plan(tmp_path, margin=0.4))
    assert any("2 pairs of 1 other plan" in title for title, _ in second.messages)
    assert len((tmp_path / "tests" / "tests.jsonl").read_text().splitlines()) == 2


def test_tests_of_the_same_rows_after_other_trainings_are_counted(tmp_path: Path) -> None:
    for size in (100, 200):
        for model in ("structured", "lstm_mean"):
            for seed in range(3):
                words = [f"model={model}", f"data.train_size={size}"]
                make_run(tmp_path / "outputs", *words, seed=seed, data_fingerprint=f"training rows {size}")
    for size, counted in ((100, False), (200, True)):
        base = ["model=structured", "data=demo", f"data.train_size={size}"]
        comparison = applied(tmp_path, write_plan(tmp_path, base=base, pairs=PLAN["pairs"][:1]))
        assert counted == any("1 pair of 1 other plan" in title for title, _ in comparison.messages)


@pytest.mark.parametrize("content", ["{torn", "[]", '{"experiment": "known"}', None])
def test_a_file_of_tests_that_cannot_be_used_is_a_remark(tmp_path: Path, content: str | None) -> None:
    train(tmp_path)
    file = tmp_path / "tests" / "tests.jsonl"
    file.parent.mkdir()
    file.mkdir() if content is None else file.write_text(content + "\n")
    comparison = applied(tmp_path, write_plan(tmp_path))
    assert len([pair for pair in comparison.tests if pair.declared]) == 2
    assert any(str(file) in title for title, _ in comparison.messages)


def test_the_command_stores_the_plan_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs, file, report = train(tmp_path), write_plan(tmp_path), tmp_path / "report.html"
    assert main([str(outputs), f"plan={file}", f"report={report}", f"output_dir={tmp_path}"]) == 0
    digest = read_plan(file).digest
    assert digest in " ".join(capsys.readouterr().out.split())
    page = report.read_text()
    assert digest in page
    assert f"<pre>{html.escape(file.read_text(), quote=False)}</pre>" in page
    assert main([str(outputs), f"plan={file}", "margin=0.4"]) == 2


POOLINGS = ("structured", "uniform")


def pretrained(folder: Path, name: str) -> list[Path]:
    """Makes runs of two poolings over an encoder at a path."""
    sides = [(f"model.embedding.name={name}", f"model/attention={pooling}") for pooling in POOLINGS]
    return [make_run(folder, "model=pretrained", *side, seed=seed, rows=400) for side in sides for seed in range(3)]


def planned(file: Path, folder: Path) -> list[str]:
    """Returns the tokenizers of both sides of the pair of a plan."""
    [pair] = applied(folder, file).declared
    return [setting.settings["data"]["tokenizer"] for setting in pair]


def test_a_plan_fits_an_encoder_anywhere_and_of_two_the_named_one(tmp_path: Path) -> None:
    base = ["model=pretrained", "data=demo", "model.embedding.name=org/encoder"]
    a, b = ({"model/attention": pooling} for pooling in POOLINGS)
    file = write_plan(tmp_path, base=base, pairs=[{"a": a, "b": b}])
    pretrained(tmp_path / "outputs", "/models/encoder")
    assert planned(file, tmp_path) == ["/models/encoder"] * 2
    pretrained(tmp_path / "outputs", "/models/other")
    assert refused(lambda: planned(file, tmp_path)) == [("plan", "conflict")]
    pretrained(tmp_path / "outputs", "org/encoder")
    assert planned(file, tmp_path) == ["org/encoder"] * 2
