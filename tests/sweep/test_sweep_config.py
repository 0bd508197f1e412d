"""Ranges typed or in a file become a plan, and every suggestion of it composes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import optuna
import plans
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from sweep_words import faults, kinds, write

from sentattn.config.groups import comment
from sentattn.config.request import read_request
from sentattn.config.search_space import suggest
from sentattn.prediction.model import LoadedRun
from sentattn.sweep.config import read_plan, sweeps_dir
from sentattn.sweep.plan import Objective, Plan

HOPS, POOLING = "model.attention.hops=range(1,31)", "model/pooling=choice(flatten,mean,prune)"
FILES = sorted(file.stem for file in sweeps_dir().glob("*.yaml"))


def drawn(plan: Plan, seed: int) -> dict[str, object]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    return dict(suggest(study.ask(), plan.space))


@pytest.fixture(scope="module")
def shipped() -> dict[str, Plan]:
    typed = {"pooling": ["model.embedding.name=folder"]}
    return {name: read_plan([f"sweep={name}", *typed.get(name, [])]) for name in FILES}


def test_the_files_of_the_readme_are_there() -> None:
    assert {"default", "fair", "pooling", "pareto", "structured_imdb", "structured_yelp"} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_every_suggestion_of_a_shipped_file_composes(name: str, shipped: dict[str, Plan]) -> None:
    assert 30 <= len(comment(sweeps_dir() / f"{name}.yaml")) <= 120
    for number, plan in enumerate(shipped[name].studies or (shipped[name],)):
        for seed in (number,) if shipped[name].studies else range(2):
            values = drawn(plan, seed)
            composed = read_request(plan.trial_arguments(values)).settings  # type: ignore[arg-type]
            assert composed["test"] is False
            for key, value in values.items():
                node = composed
                for part in key.split(".")[:-1]:
                    node = node[part]
                if "/" not in key:
                    assert node[key.rpartition(".")[2]] == value


def shared_words(studies: Sequence[Plan], *own: str) -> list[str]:
    """The words that all studies of a file share but for those that begin with `own`; their plans are alike."""
    first, words = studies[0], []
    for one in studies:
        assert (one.space, one.trials, one.sampler, one.seed) == (first.space, first.trials, first.sampler, first.seed)
        words.append([word for word in one.overrides if not word.startswith(own)])
    assert all(each == words[0] for each in words)
    return words[0]


def test_the_studies_of_fair_differ_in_the_model_alone(shipped: dict[str, Plan]) -> None:
    studies = shipped["fair"].studies
    assert len({one.study for one in studies}) == len(studies) > 5
    assert shared_words(studies, "model=") == ["data=imdb"]


def test_the_studies_of_pooling_differ_in_the_attention_and_its_control_alone(shipped: dict[str, Plan]) -> None:
    studies = shipped["pooling"].studies
    attentions = [next(word for word in one.overrides if word.startswith("model/attention=")) for one in studies]
    assert shared_words(studies, "model/attention=", "model.freeze", "model/encoder=tokenwise", "model.encoder.width")
    for one in studies:
        assert (one.sampler["name"], one.pruner["name"], one.confirm) == ("qmc", "none", 0)
        assert "model.embedding.cache_layers=[-5,-4,-3,-2,-1]" in one.trial_arguments(drawn(one, 0))  # type: ignore[arg-type]
    frozen = [one.study for one in studies if "model.freeze_attention=true" in one.overrides]
    assert frozen == ["pooling-imdb-structured_frozen", "pooling-imdb-query_frozen"]
    others = {"last", "relation", "position"}  # of words, and of decoders
    names = {file.stem for file in (sweeps_dir().parent / "conf" / "model" / "attention").glob("*.yaml")}
    assert {word.partition("=")[2] for word in attentions} == names - others


def test_a_sweep_over_an_encoder_needs_its_name() -> None:
    assert kinds("sweep=pooling") == [("model.embedding.name", "missing")]


def test_a_bare_command_is_the_default(shipped: dict[str, Plan]) -> None:
    bare, imdb = read_plan([]), read_plan(["data=imdb"])
    assert bare == shipped["default"]
    assert bare.threads == 1  # a trial waits for no other program that uses a core
    assert imdb.study == "structured-imdb"  # of the model as it is trained
    assert not any("embedding" in word for word in imdb.overrides)


def test_a_folder_of_the_user_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert read_plan(["output_dir=~/runs"]).output_dir == "/home/somebody/runs"


def test_ranges_start_an_empty_space() -> None:
    plan = read_plan(["model=structured", HOPS, "trials=7", "seed=3"])
    assert plan.overrides == ("model=structured",)
    assert {key: one.distribution for key, one in plan.space.items()} == {
        "model.attention.hops": IntDistribution(1, 30)
    }
    assert plan.study == "structured-demo"
    assert (plan.trials, plan.hours, plan.seed) == (7, None, 3)
    assert plan.objectives == (Objective("val/accuracy", "max"),)
    assert (plan.sampler, plan.pruner) == ({"name": "tpe"}, {"name": "percentile"})


def test_what_is_typed_extends_and_replaces_a_file_key_by_key(shipped: dict[str, Plan]) -> None:
    name = "default"
    plan = read_plan([f"sweep={name}", "model.attention.hops=range(2,5)", "optimizer.lr=0.01", "ema_decay=0.9,0.99"])
    assert plan.space["model.attention.hops"].distribution == IntDistribution(2, 4)
    assert plan.space["ema_decay"].distribution == CategoricalDistribution([0.9, 0.99])
    assert "optimizer.lr" not in plan.space
    assert "optimizer.lr=0.01" in plan.overrides
    kept = set(shipped[name].space) - {"model.attention.hops", "optimizer.lr"}
    assert all(plan.space[key] == shipped[name].space[key] for key in kept)


def test_a_fixed_value_takes_its_conditions_along() -> None:
    assert not [key for key in read_plan(["sweep=default", "model/pooling=mean"]).space if "pooling" in key]
    plan = read_plan(["sweep=default", "model/pooling=prune"])
    assert plan.space["model.pooling.p"].when == {}


@pytest.mark.parametrize(
    ("words", "conditions"),
    [
        (
            ["model=structured", POOLING],
            {
                "model.pooling.p": ("range(4,8)", "{model/pooling: prune}"),
                "model.pooling.q": ("range(4,8)", "{model/pooling: prune}"),
            },
        ),
        (
            ["model/attention=choice(uniform,structured)", HOPS, "loss.penalty=0.1"],
            {
                "model.attention.hops": ("range(1,31)", "{model/attention: structured}"),
                "loss.penalty": ("choice(0.1)", "{model/attention: structured}"),
            },
        ),
    ],
)
def test_a_missing_condition_is_refused_with_the_line_to_write(
    tmp_path: Path, words: list[str], conditions: dict[str, tuple[str, str]]
) -> None:
    for fault in faults(*words):
        assert fault.message.endswith(f'{fault.key}: {{space: "RANGE", when: {conditions[fault.key][1]}}}')
    assert {fault.key for fault in faults(*words)} == set(conditions)
    file = tmp_path / "mine.yaml"
    lines = [f'  {key}: {{space: "{text}", when: {when}}}' for key, (text, when) in conditions.items()]
    file.write_text("\n".join(["space:", *lines]))
    plan = read_plan([f"sweep={file}", *(word for word in words if word.partition("=")[0] not in conditions)])
    assert all(plan.space[key].when for key in conditions)
    for seed in range(4):
        read_request(plan.trial_arguments(drawn(plan, seed)))  # type: ignore[arg-type]


def test_arguments_of_a_trial_and_of_its_setting() -> None:
    plan = read_plan([HOPS, "objective.metric=val/f1_macro", "seed=5", "study=mine", "output_dir=here (1)"])
    values = {"model.attention.hops": 3}
    own = ["model.attention.hops=3", "objective.metric=val/f1_macro", "objective.mode=max"]
    assert plan.arguments(values) == own
    assert plan.trial_arguments(values) == [*own, "output_dir=here (1)", "group=mine", "test=false", "seed=5"]


def test_a_trial_without_a_pretrained_encoder_caches_no_layers() -> None:
    layer = ("choice(-1,-2)", {"model": ("pretrained",)})
    over_layers = plans.plan({"model": "choice(mean,pretrained)", "model.embedding.layer": layer}, overrides=())
    cached = "model.embedding.cache_layers=[-1,-2]"
    assert cached not in over_layers.trial_arguments({"model": "mean"})
    assert cached in over_layers.trial_arguments({"model": "pretrained", "model.embedding.layer": -2})


def test_several_objectives() -> None:
    plan = read_plan([HOPS, "objective.metric=val/accuracy,latency_ms.one"])
    assert plan.objectives == (Objective("val/accuracy", "max"), Objective("latency_ms.one", "min"))
    assert plan.pruner == {"name": "none"}


def test_components_and_their_settings() -> None:
    plan = read_plan(
        [
            "sweep=default",
            "sampler=tpe",
            "sampler.multivariate=false",
            "sampler.group=false",
            "pruner.n_startup_trials=4",
        ]
    )
    assert plan.sampler == {"name": "tpe", "multivariate": False, "group": False}
    assert plan.pruner == {"name": "percentile", "n_warmup_steps": 3, "n_startup_trials": 4}


def test_the_engine_of_a_file(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    file = write(tmp_path, space={"model.attention.hops": "range(1,31)"}, engine="ray")
    plan, local = read_plan([file]), read_plan([file, "engine=local"])
    assert plan.engine == "ray"
    assert local.engine == read_plan([HOPS]).engine == "local"
    assert (plan.trial_arguments({}), plan.study) == (local.trial_arguments({}), local.study)


def test_a_file_of_ones_own_and_the_command_line_have_one_spelling(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        study="mine",
        overrides=["model=structured"],
        space={"model.attention.hops": "range(1,31)"},
        objective=[{"metric": "val/log_loss", "mode": "min"}],
        budget={"trials": 4, "hours": 0.5},
        sampler={"name": "random"},
        pruner="none",
        repeats=1,
        retries=2,
        seed=9,
    )
    typed = ["study=mine", "model=structured", HOPS, "objective.metric=val/log_loss", "trials=4", "hours=0.5"]
    typed += ["sampler=random", "pruner=none", "repeats=1", "retries=2", "seed=9"]
    assert read_plan([file]) == read_plan(typed)


def test_hours_alone_are_a_budget() -> None:
    assert read_plan([HOPS, "hours=2"]).trials is None
    assert kinds(HOPS, "trials=null") == [("trials", "missing")]


def test_all_trials_start_from_the_run_that_was_the_latest(
    tiny_run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("outputs", "demo", "structured", "20260101-000000-aaaa")
    shutil.copytree(tiny_run.path, path)
    for key in ("from", "init_from"):
        typed = read_plan([f"{key}=latest", "model.attention.hops=range(1,9)"])
        assert f"{key}={path}" in typed.overrides
        assert f"{key}={path}" in typed.words, "with which the study is resumed by its name"
        file = write(tmp_path, overrides=[f"{key}=latest"], space={"model.attention.hops": "range(1,9)"})
        assert {file, f"{key}={path}"} <= {*read_plan([file]).words}
