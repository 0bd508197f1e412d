"""The settings of one training, as what reads them gets them: typed, checked and unchangeable."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from sentattn.config.types import Count, Fraction, Kind, Node, NonNegative, Seed

CHOICES = "choices"


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
        return len(self.__dict__)


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
        choices: Choices of a folder of the user's for parts of the model, such as `{"model/attention": "query"}`.
    """

    seed: Seed
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
    model: Node
    loss: Node
    optimizer: Node
    scheduler: Node
    trainer: Node
    logger: Node
    data: Node
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, content: Node) -> Settings:
        """Returns settings that `compose` or `override` has checked."""
        return cls(**{**content, "objective": Objective(**content["objective"])})

    def __iter__(self) -> Iterator[str]:
        return (key for key in self.__dict__ if key != CHOICES or self.choices)

    def __len__(self) -> int:
        return len(list(iter(self)))


def types_by_key(section: type = Settings, prefix: str = "") -> Iterator[tuple[str, Kind]]:
    """Yields the dotted key and the type of each setting that belongs to no constructor."""
    for name, kind in get_type_hints(section, include_extras=True).items():
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from types_by_key(kind, f"{name}.")
        elif kind != Node and name != CHOICES:
            yield f"{prefix}{name}", kind
