"""The sweep's own keys, one spelling in a file and on the command line, and the settings that a sweep decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sentattn.config import types
from sentattn.errors import Fault


@dataclass(frozen=True)
class Option:
    """One of the sweep's own keys.

    Attributes:
        annotation: What it takes, as in `sentattn.config.types`.
        default: Its value where it is not given.
        about: What it is.
    """

    annotation: str
    default: Any
    about: str


OPTIONS: dict[str, Option] = {
    "study": Option("str | None", None, "name of the study and of its folder; null: by model and data"),
    "trials": Option("Count | None", 20, "finished trials, pruned ones among them; null: until hours are over"),
    "hours": Option("Positive | None", None, "time in which trials are begun, over all starts of the study"),
    "repeats": Option("Count", 1, "trainings a trial, with the seeds from `seed` on; their mean is the objective"),
    "retries": Option("Whole", 1, "tries again of a trial that died"),
    "failures": Option("Count", 5, "end after so many failures in a row"),
    "limit_minutes": Option("Positive | None", None, "a trial that takes longer is ended and counts as failed"),
    "slots": Option("Count | None", None, "trials at once; null: as many as there are GPUs, or cores"),
    "slots_per_gpu": Option("Count", 1, "trials at once on one GPU"),
    "gpus_per_trial": Option("Count", 1, "GPUs that train a trial together"),
    "threads": Option("Count | None", None, "of a trial on a CPU; null: the cores divided by the slots"),
    "keep": Option("Whole", 3, "best trials that keep their checkpoints"),
    "confirm": Option("Whole", 0, "seeds to train the best setting with at the end, test set included"),
    "seed": Option("Seed", 0, "of the sampler and of every trial"),
    "engine": Option('Literal["local"]', "local", "what runs trials: processes of this machine"),
    "storage": Option("str | None", None, "SQLAlchemy URL of the study's database; null: SQLite in the study's folder"),
    "output_dir": Option("str", "outputs", "the study lies in output_dir/sweeps/<study>"),
}
BUDGET = ("trials", "hours")
COMPONENTS = ("sampler", "pruner")
OBJECTIVE = ("objective.metric", "objective.mode")
SWEEP = "sweep"
TYPED = (SWEEP, *OPTIONS, *OBJECTIVE, *COMPONENTS)
"""All keys of the command line; the components' settings stand behind a dot, as in `sampler.multivariate`."""
IN_FILES = (
    "overrides",
    "space",
    "objective",
    "budget",
    "studies",
    *COMPONENTS,
    *(k for k in OPTIONS if k not in BUDGET),
)

DECIDED: dict[str, str] = {
    "test": "trials never touch the test set; confirm=5 tests the best setting at the end",
    "seeds": "several seeds a trial are repeats=3",
    "resume": "the same command again continues a study",
    "check": "every setting is checked before the first trial",
    "group": "the trials of a study are a group",
    "run": "a sweep trains; it reads no run",
    "trainer.devices": "a trial's devices are its slot's; type gpus_per_trial=2",
    "trainer.num_nodes": "a trial's devices are its slot's; type gpus_per_trial=2",
    "trainer.strategy": "a trial's devices are its slot's; type gpus_per_trial=2",
    "logger.job_type": "W&B is told that these are trials",
}
"""Settings of a training that a sweep decides, and what to do instead."""
NOT_SEARCHED: dict[str, str] = {
    "data": "trials on different data cannot be compared; start a study for each",
    "experiment": "an experiment brings data of its own; start a study for each",
    "from": "give one base, and ranges beside it",
    "logger": "a logger changes nothing that could be searched",
    "trainer": "a trial's devices are its slot's; search trainer.max_epochs and others by themselves",
    "trainer.accelerator": "a trial's devices are its slot's",
    "tags": "tags change nothing that could be searched",
    "checkpoint_minutes": "it changes nothing that could be searched",
    **{key: "it belongs to the sweep, which has one value of it" for key in OPTIONS if key != "seed"},
    **dict.fromkeys(OBJECTIVE, "each study has its own objective"),
    **dict.fromkeys(
        ("data.limit", "data.val_size", "data.split_seed", "data.drop_duplicates"),
        "trials judged on different rows cannot be compared",
    ),
}
"""Settings that are given, and not searched."""


def decided(key: str, text: str) -> str | None:
    """Returns the message that refuses a setting which a sweep decides, or None."""
    return f"{key}={text}: a sweep decides {key} itself; {DECIDED[key]}." if key in DECIDED else None


def not_searched(key: str, text: str) -> str | None:
    """Returns the message that refuses a range of a setting which is not searched, or None."""
    reason = DECIDED.get(key) or NOT_SEARCHED.get(key)
    if reason is None and key.startswith("logger."):
        reason = NOT_SEARCHED["logger"]
    return f"{key}={text}: {key} is not searched; {reason}." if reason else None


def option_value(key: str, value: Any) -> tuple[Any, Fault | None]:
    """Returns an option's value, and what is wrong with it, or None.

    A text is taken as it stands where a text is legal: a study may be called `2026`.
    """
    annotation = OPTIONS[key].annotation
    if isinstance(value, str) and not ("str" in annotation and value != "null"):
        value = types.parse(value)
    elif "str" in annotation and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return value, types.fault(key, annotation, value)


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all options, those that were not given by their defaults; hours alone are a budget too."""
    values = {key: given.get(key, option.default) for key, option in OPTIONS.items()}
    if given.get("hours") is not None and "trials" not in given:
        values["trials"] = None
    return values
