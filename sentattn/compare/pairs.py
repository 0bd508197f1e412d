"""The pairs of settings that are tested: declared by how settings differ, or by a plan."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sentattn.compare.runs import Setting, rest
from sentattn.config.schema import SEEDS
from sentattn.config.targets import slots
from sentattn.config.types import Node

SettingPair: TypeAlias = tuple[Setting, Setting]


@dataclass(frozen=True)
class Plan:
    """A plan: its file, its content, which is checked, and what is known when its runs are there.

    Attributes:
        text: The text of the file.
        pairs: Its pairs of settings, with the seeds of the plan.
        experiment: The first digits of the SHA-256 of all resolved settings, the data and the version.
        remark: What other plans have tested on the same rows.
    """

    path: Path
    content: Node
    text: str
    pairs: Sequence[SettingPair] = ()
    experiment: str = ""
    remark: str = ""

    @property
    def title(self) -> str:
        """Its file with its hashes."""
        experiment = f"; with settings, data and version {self.experiment}" if self.experiment else ""
        return f"Plan {self.path.name} (SHA-256 {self.digest}{experiment})"

    @property
    def digest(self) -> str:
        """The first digits of the SHA-256 of its content: equal for files that differ in comments and spaces only."""
        return hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()[:12]


def _is_baseline(settings: Node) -> bool:
    return _attention(settings) == "uniform" or settings["model"]["attention"].get("score") == "none"


def _attention(settings: Node) -> str | None:
    return slots(settings).get("attention")


def _is_frozen(settings: Node) -> bool:
    return bool(settings["model"].get("freeze_attention"))


def _wide(settings: Node, key: str) -> Any:
    """Returns a setting of the wide part; None without such a part."""
    return (settings["model"].get("wide") or {}).get(key)


def _is_hybrid(settings: Node) -> bool:
    """Whether a model has a wide and a deep part, and is not a control of such a model."""
    is_control = _wide(settings, "attend") == "uniform" or _wide(settings, "share") == 1
    return _wide(settings, "orders") is not None and slots(settings).get("embedding") != "none" and not is_control


MECHANISM = ("model.name", "model.attention.", "model.pooling.", "loss.penalty")
"""Settings of an attention, with the pooling of its hops and the penalty on them."""
CONTRASTS: tuple[tuple[tuple[str, ...], Callable[[Node, Node], bool]], ...] = (
    (MECHANISM, lambda a, b: not _is_baseline(a) and _attention(a) != "relation" and _attention(b) == "uniform"),
    (MECHANISM, lambda a, b: not _is_baseline(a) and _is_baseline(b) and _attention(a) == _attention(b) == "relation"),
    (("model.freeze_attention",), lambda a, b: not _is_frozen(a) and _is_frozen(b)),
    (("model.wide.attend",), lambda a, b: _wide(a, "attend") is True and _wide(b, "attend") == "uniform"),
    (("model.wide",), lambda a, b: _is_hybrid(a) and _wide(b, "orders") is None),
    (("model.wide.share",), lambda a, b: _is_hybrid(a) and _wide(b, "share") == 1),
)
"""Kinds of pairs that are declared before looking: prefixes of the keys in which two settings differ, and whether the
first has the component and the second is its control.

In this order: an attention and uniform weights over the same encoder; `relation` with and without scores; a trained
attention and the same attention frozen at its initial values; learned and uniform attention over n-grams; a model with
and without a wide part; such a model and its wide part alone. Each part has its own loss, and the share only weights
the sum of their logits, so the wide part alone is the one that was trained in the model."""


def declared_indices(settings: Sequence[Node], trained_on: Sequence[object]) -> list[tuple[int, int]]:
    """Returns the indices of the pairs that are declared before looking (`CONTRASTS`).

    Both settings of a pair were trained on the same rows. References, which have no attention, are in no pair.
    """
    trained = [index for index, of_model in enumerate(settings) if "attention" in of_model["model"]]
    return [
        (first, second)
        for differs, is_pair in CONTRASTS
        for second in trained
        for first in trained
        if is_pair(settings[first], settings[second])
        and trained_on[first] == trained_on[second]
        and rest(settings[first], differs) == rest(settings[second], differs)
    ]


def best_against_reference(settings: Sequence[Setting], split: str) -> tuple[list[SettingPair], list[str]]:
    """Returns the pairs of NB-SVM with the best setting on validation rows, for test rows, and remarks on missing ones.

    The setting has enough seeds and the same training rows as the reference.
    """
    pairs: list[SettingPair] = []
    notes = []
    for reference in settings:
        if reference.runs[0].is_of_table or reference.settings["model"].get("name") != "nbsvm":
            continue
        if split == "val":
            reason = "it would be chosen by the rows it is tested on. Type split=test."
            notes.append(f"No test of the best setting against {reference.name}: {reason}")
            continue
        candidates = [
            setting
            for setting in settings
            if "attention" in setting.settings["model"]
            and setting.has_seeds
            and setting.fingerprints == reference.fingerprints
            and math.isfinite(setting.on_validation)
        ]
        if candidates:
            pairs.insert(0, (max(candidates, key=lambda setting: setting.on_validation), reference))
        else:
            notes.append(f"No setting has {SEEDS} seeds and the training rows of {reference.name}: nothing to test.")
    return pairs, notes
