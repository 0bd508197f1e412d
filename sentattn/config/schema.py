"""The record of the settings, and what constructors do not say about them: types, raw keys, owned arguments.

Settings are typed, checked by `compose` or `override`, and cannot be changed.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

from sentattn.config.types import Count, Fraction, Kind, Node, NonNegative, Positive, Seed, Share, Whole

CHOICES_KEY, CODE_KEY = "choices", "code"
"""The records in settings: which choice each group has, and the hash of the source of each class of one's own."""


class Section(Node):
    """A dataclass that is also read as a mapping of plain values, as YAML and JSON need them."""

    def __getitem__(self, key: str) -> Any:
        if key not in self.__dict__:
            raise KeyError(key)
        value = getattr(self, key)
        return dict(value) if isinstance(value, Section) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass(frozen=True, eq=False)
class Objective(Section):
    """What decides which epoch is the best."""

    metric: Literal[
        "val/accuracy",
        "val/f1_macro",
        "val/f1_weighted",
        "val/log_loss",
        "val/brier_score",
        "val/calibration_error",
        "val/mean_absolute_error",
        "val/quadratic_kappa",
    ]
    mode: Literal["max", "min"]


@dataclass(frozen=True, eq=False)
class Settings(Section):
    """All settings of one training, in the order of `conf/train.yaml`.

    Fields without a node are the settings at the top; `conf/train.yaml` says what they mean.

    Attributes:
        choices: The choice of each group, such as `{"model/attention": "query"}`; empty where they are not known.
        code: Hashes of the source files that define classes of one's own, such as `{"model.attention": "0123abcd"}`.
    """

    seed: Seed
    init_from: str | None
    test: bool
    output_dir: str
    checkpoint_minutes: NonNegative | None
    threads: Count | None
    matmul_precision: Literal["highest", "high", "medium"]
    compile: bool
    ema_decay: Fraction | None
    weight_decay_on: Literal["all", "attention_and_head"]
    objective: Objective
    tags: list[str]
    group: str | None
    callbacks: Node
    model: Node
    loss: Node
    optimizer: Node
    scheduler: Node
    trainer: Node
    logger: Node
    data: Node
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    code: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, content: Node) -> Settings:
        """Returns settings that `compose` or `override` has checked."""
        return cls(**{"callbacks": {}, **content, "objective": Objective(**content["objective"])})

    def __iter__(self) -> Iterator[str]:
        return (key for key, value in self.__dict__.items() if key not in (CHOICES_KEY, CODE_KEY) or value)


def types_by_key(section: type = Settings, prefix: str = "") -> Iterator[tuple[str, Kind]]:
    """Yields the dotted key and the type of each setting that belongs to no constructor."""
    for name, kind in get_type_hints(section, include_extras=True).items():
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from types_by_key(kind, f"{name}.")
        elif kind != Node and name not in (CHOICES_KEY, CODE_KEY):
            yield f"{prefix}{name}", kind


TOP: dict[str, Kind] = dict(types_by_key())
"""Types of the settings that belong to no constructor."""

METRIC_BOUNDS: dict[str, tuple[str, float, float]] = {
    "accuracy": ("max", 0, 1),
    "f1_macro": ("max", 0, 1),
    "f1_weighted": ("max", 0, 1),
    "log_loss": ("min", 0, math.inf),
    "brier_score": ("min", 0, 2),
    "calibration_error": ("min", 0, 1),
    "mean_absolute_error": ("min", 0, math.inf),
    "quadratic_kappa": ("max", -1, 1),
}
BETTER = {metric: better for metric, (better, _, _) in METRIC_BOUNDS.items()}
"""The metrics, and which way each is better."""
BOUNDS = {metric: (least, largest) for metric, (_, least, largest) in METRIC_BOUNDS.items()}
"""The least and the largest value of each metric."""
SEEDS = 3
"""Fewest seeds of a setting with an interval or a verdict, unless all its trainings are equal."""

COMMAND_KEYS: dict[str, Kind] = {
    "seeds": Count,
    "from": str,
    "check": bool,
    "match_parameters": str,
    "resume": str,
    "trust": bool,
}
"""Types of the keys of the training command itself: they are no settings, so no run keeps them."""

INIT_FROM = "init_from"
"""The setting with the run whose weights a training starts from."""

AUTO_RESUME = "auto"
"""The value of `resume` that finds an interrupted run of the same settings."""

TRAIN = "train"
"""The value of `data.vectors` for vectors that are trained on the training rows."""

REFERENCE = re.compile(r"\$\{[^}]*\}?")
"""A reference to another value, which only the files of a configuration folder hold."""

COLUMN_KEYS = frozenset({"data.text", "data.label", "data.group"})
"""Keys that hold the name of a column."""

LIST_KEYS = frozenset({"data.text", "data.train", "data.val", "data.test", "data.rows"})
"""Raw keys that hold a name or, in brackets, a list of names; see `types.parse_names`."""

RAW = frozenset(
    COLUMN_KEYS
    | {f"data.{key}" for key in ("path", "train", "val", "test", "rows", "dataset", "config", "revision")}
    | {f"data.{key}" for key in ("vectors", "cache_dir", "mirror", "tokenizer")}
    | {"output_dir", "from", "match_parameters", "resume", "run", INIT_FROM}
    | {"model.embedding.name", "model.embedding.revision"}
)
"""Keys that hold text or paths: their values are taken as they were typed."""

FIXED_IN_TRAINING: dict[str, str] = {
    "data.seed": "type seed=NUMBER",
    "data.vector_size": "type model.embedding.size=NUMBER",
    "data.rank": "torchrun or srun numbers the processes",
    "data.world_size": "type trainer.devices=NUMBER",
    "model.embedding.num_special": "the tokenizer has them",
    "model.wide.num_special": "the tokenizer has them",
    "optimizer.differentiable": "no gradient passes through a step",
    "trainer.logger": "choose with logger=wandb or logger=none",
    "trainer.callbacks": "choose with callbacks=NAME or callbacks=[NAME,NAME]",
    "callbacks.early_stopping.monitor": "it watches the objective; type objective.metric=METRIC",
    "callbacks.early_stopping.mode": "it watches the objective; type objective.mode=min or max",
    "trainer.plugins": "name the precision with trainer.precision, and the devices with trainer.devices",
    "trainer.use_distributed_sampler": "each device gets its share of every batch",
    "trainer.default_root_dir": "name a folder with output_dir=FOLDER",
    "trainer.barebones": "it would leave out the metrics and the checkpoint of each epoch",
    "trainer.model_registry": "publish a model with python -m sentattn.export",
    "trainer.enable_autolog_hparams": "all settings are always logged",
    "trainer.fast_dev_run": "for a quick look use data.limit=200 trainer.max_epochs=1",
    "trainer.check_val_every_n_epoch": "each epoch is validated, so that the best one can be kept",
    "trainer.val_check_interval": "each epoch is validated, so that the best one can be kept",
    "trainer.limit_val_batches": "for fewer rows use data.limit=ROWS",
    "trainer.limit_test_batches": "for fewer rows use data.limit=ROWS",
    "trainer.limit_predict_batches": "for fewer rows use data.limit=ROWS",
    "trainer.overfit_batches": "for fewer rows use data.limit=ROWS",
    "trainer.max_steps": "a training ends with an epoch; use trainer.max_epochs=EPOCHS",
    "trainer.max_time": "a training ends with an epoch; use trainer.max_epochs=EPOCHS",
    "trainer.enable_progress_bar": "progress is shown on a terminal only",
    "trainer.enable_checkpointing": "the best and the last epoch are always kept",
    "trainer.enable_model_summary": "the number of parameters is always printed",
}
"""Arguments that are set in code, and what to do instead."""

STRICTER: dict[str, dict[str, Kind]] = {
    "torch.optim.": {
        "lr": Positive,
        "weight_decay": NonNegative,
        "momentum": Fraction,
        "dampening": NonNegative,
        "lr_decay": NonNegative,
        "initial_accumulator_value": NonNegative,
        "eps": Positive,
        "betas": tuple[Fraction, Fraction],
    },
    "pytorch_lightning.callbacks.early_stopping.EarlyStopping": {"patience": Count, "min_delta": NonNegative},
    "pytorch_lightning.trainer.trainer.Trainer": {
        "accelerator": Literal["auto", "cpu", "gpu", "cuda", "mps", "tpu"],
        "devices": Count | Literal[-1, "auto"] | list[Whole],
        "num_nodes": Count,
        "strategy": Literal["auto", "ddp"],
        "precision": Literal["auto", "32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true"],
        "max_epochs": Count,
        "min_epochs": Count | None,
        "limit_train_batches": Count | Share | None,
        "num_sanity_val_steps": Whole,
        "log_every_n_steps": Count | None,
        "accumulate_grad_batches": Count,
        "gradient_clip_val": NonNegative | None,
        "gradient_clip_algorithm": Literal["norm", "value"] | None,
    },
}
"""Types for parameters of libraries whose own annotations let through what the library then refuses, by target."""

KEPT_BY_TRAINED_MODEL = frozenset(
    {
        f"data.{key}"
        for key in ("tokenizer", "lowercase", "normalize", "max_length", "clip", "vocab_size", "min_count", "vectors")
    }
    | {"data.batching", "data.num_buckets", "data.bucket_ratio"}
)
"""Settings of the data that a trained model keeps, or needs no more: testing it on other data cannot change them."""

FOLDS, FOLD = "data.folds", "data.fold"
"""The number of folds, and which is the test set: with the seed it distinguishes the runs of a setting."""

HASHED_BY_CONTENT = (
    *("data.vectors", "data.dataset", "data.config", "data.revision"),
    *("model.embedding.name", "model.embedding.revision"),
)
"""Settings that name files whose content is hashed, or said by the fingerprint of the data."""

IN_MEMORY = "rows-in-memory-"
"""What the name of the folder begins with that holds rows of `sentattn.fit(data=)` while a training lasts."""

WITHOUT_EFFECT_ON_RESULT = frozenset(
    {"seed", "output_dir", "checkpoint_minutes", "threads", "compile", "logger", "tags", "group", "test"}
    | {*HASHED_BY_CONTENT, FOLD, "data.path", "data.mirror", "data.cache_dir", "data.num_workers"}
    | {"model.embedding.cache", "model.embedding.cache_layers"}
    | {"trainer.accelerator", "trainer.devices", "trainer.num_nodes", "trainer.strategy", "optimizer.fused"}
    | {f"trainer.{key}" for key in ("profiler", "detect_anomaly", "inference_mode")}
    | {f"trainer.{key}" for key in ("num_sanity_val_steps", "log_every_n_steps")}
    | {CHOICES_KEY, CODE_KEY}
)
"""Left out of the hash of a setting: runs that differ in these alone are seeds of one setting."""

LOGS_ALONE = "sentattn.training.callbacks.LearningRates"
"""The callback without effect on the result."""


def is_in_memory(value: object) -> bool:
    """Returns whether a setting names a file with rows of `sentattn.fit(data=)`."""
    return isinstance(value, str) and Path(value).parent.name.startswith(IN_MEMORY)


def stricter(target: str, name: str) -> Kind:
    """Returns the stricter type of a parameter, or None where its own will do."""
    tables = (kinds for prefix, kinds in STRICTER.items() if target.startswith(prefix))
    return next((kinds[name] for kinds in tables if name in kinds), None)
