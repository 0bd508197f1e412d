"""How much each searched setting matters, told in two ways, and where the two do not agree.

PED-ANOVA compares where good trials lie with where all lie, and knows settings under a condition too; fANOVA splits the
variance of a random forest's predictions, over the settings that all trials have. Where a sampler crowds its trials,
PED-ANOVA can take the crowding for importance, so neither is shown without the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sentattn.sweep.records import Record
from sentattn.sweep.search_space import Dimension

if TYPE_CHECKING:
    import optuna

FEWEST = 4
MOST = 200
"""Trials that fANOVA looks at: its time grows with more than their number, 22 s for 1,000."""
FAR = 0.3
"""Shares that differ by as much do not agree."""
AT_RANDOM = ("random", "qmc", "grid", "brute_force")


@dataclass(frozen=True)
class Importances:
    """Shares of the settings in what an objective turned on; they sum to 1.

    Attributes:
        metric: The objective.
        ped_anova: By key, the largest first.
        fanova: The same; settings under a condition have none. None where scikit-learn is missing.
        caution: What to mind; empty where both agree.
    """

    metric: str
    ped_anova: Mapping[str, float]
    fanova: Mapping[str, float] | None
    caution: str

    def most(self, count: int) -> list[str]:
        """Returns the settings that matter most, by fANOVA where there is one."""
        return list(self.fanova or self.ped_anova)[:count]


def importances(
    found: Sequence[Record], space: Mapping[str, Dimension], metric: str, mode: str, *, place: int = 0, sampler: str
) -> Importances | None:
    """Measures how much each setting matters for an objective.

    Args:
        found: The trials; complete ones count.
        space: What was searched.
        metric: The objective.
        mode: Whether more or less of it is better.
        place: Which of the objectives it is.
        sampler: What has drawn the trials.

    Returns:
        None where too few trials are complete, or all came to the same.
    """
    from optuna.importance import PedAnovaImportanceEvaluator

    complete = [one for one in found if one.state == "complete" and one.objectives and one.values]
    if len(complete) < FEWEST or len({one.objectives[place] for one in complete if one.objectives}) == 1:
        return None
    ped = _measured(_study(complete, space, mode, place), PedAnovaImportanceEvaluator())
    fanova = _fanova(_study(complete[:: -(-len(complete) // MOST)], space, mode, place))
    return Importances(metric, ped, fanova, caution(ped, fanova, sampler) if fanova else "")


def caution(ped: Mapping[str, float], fanova: Mapping[str, float], sampler: str) -> str:
    """Returns what to mind where two measures do not agree on the settings that both know; else an empty string."""
    both = [key for key in fanova if key in ped]
    total = {id(one): sum(one[key] for key in both) for one in (ped, fanova)}
    if len(both) < 2 or not all(total.values()):
        return ""
    own, other = ({key: one[key] / total[id(one)] for key in both} for one in (ped, fanova))
    first, second = max(own, key=own.__getitem__), max(other, key=other.__getitem__)
    apart = max(both, key=lambda key: abs(own[key] - other[key]))
    if first == second and abs(own[apart] - other[apart]) <= FAR:
        return ""
    if first != second:
        told = f"PED-ANOVA puts {first} first ({own[first]:.2f}; fANOVA: {other[first]:.2f}), fANOVA {second} "
        told += f"({other[second]:.2f}; PED-ANOVA: {own[second]:.2f})."
    else:
        told = f"They differ on {apart}: {own[apart]:.2f} by PED-ANOVA, {other[apart]:.2f} by fANOVA."
    why = "" if sampler in AT_RANDOM else f" sampler={sampler} crowds its trials, which PED-ANOVA can take for it;"
    return f"{told}{why} look at the slices before you believe either."


def _fanova(study: optuna.Study) -> dict[str, float] | None:
    from optuna.importance import FanovaImportanceEvaluator

    try:
        return _measured(study, FanovaImportanceEvaluator(seed=0))
    except ImportError:
        return None


def _measured(study: optuna.Study, evaluator: optuna.importance._base.BaseImportanceEvaluator) -> dict[str, float]:
    from optuna.importance import get_param_importances

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = get_param_importances(study, evaluator=evaluator)
    return {key: float(value) for key, value in found.items()}


def _study(found: Sequence[Record], space: Mapping[str, Dimension], mode: str, place: int) -> optuna.Study:
    """The trials as Optuna has them, with one objective."""
    import optuna

    study = optuna.create_study(
        storage=optuna.storages.InMemoryStorage(), direction="maximize" if mode == "max" else "minimize"
    )
    for one in found:
        assert one.objectives is not None
        study.add_trial(
            optuna.trial.create_trial(
                value=one.objectives[place],
                params={key: space[key].drawn(value) for key, value in one.values.items()},
                distributions={key: space[key].distribution for key in one.values},
            )
        )
    return study
