"""What the trials of a study say: the best setting or the Pareto front, and how much each setting matters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sentattn.sweep.plan import Objective
from sentattn.sweep.records import Record
from sentattn.sweep.search_space import Dimension

if TYPE_CHECKING:
    from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator

MIN_TRIALS = 4
MAX_FANOVA_TRIALS = 200
"""Trials that fANOVA takes: its time grows faster than their number, 22 s for 1,000."""
DISAGREEMENT = 0.3
RANDOM_SAMPLERS = ("random", "qmc", "grid", "brute_force")
DIRECTIONS = {"max": StudyDirection.MAXIMIZE, "min": StudyDirection.MINIMIZE}
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "running": TrialState.RUNNING}


def as_study(
    records: Sequence[Record],
    space: Mapping[str, Dimension],
    objectives: Sequence[Objective],
    index: int | None = None,
) -> optuna.Study:
    """Returns trials as an Optuna study in memory; the n-th record is trial n.

    Trials of an earlier space and interrupted ones are failed trials there, as they take part in no comparison.
    Parameters have the values that the sampler drew: the point 0 of a log range is a small number.

    Args:
        records: The trials.
        space: Their parameters; others are left out.
        objectives: Their objectives.
        index: The only objective that is taken; None for all.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Optuna warns of few trials, which the cautions report. Blamed on the caller's module from Python 3.12 on.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"optuna\.|sentattn\.sweep\.report\.")
    taken = slice(None) if index is None else slice(index, index + 1)
    directions = [DIRECTIONS[objective.mode] for objective in objectives[taken]]
    study = optuna.create_study(storage=optuna.storages.InMemoryStorage(), directions=directions)
    for number, record in enumerate(records):
        state = STATES.get(record.state, TrialState.FAIL)
        is_complete = state is TrialState.COMPLETE
        values = {key: value for key, value in record.values.items() if is_complete and key in space}
        began = record.started or record.ended or datetime.now()
        study.add_trial(
            FrozenTrial(
                number=number,
                state=state,
                value=None,
                values=list((record.objectives or ())[taken]) if is_complete else None,
                datetime_start=began,
                datetime_complete=(record.ended or began) if state.is_finished() else None,
                params={key: space[key].drawn(value) for key, value in values.items()},
                distributions={key: space[key].distribution for key in values},
                user_attrs={},
                system_attrs={},
                intermediate_values={step: v for step, v in record.steps.items() if math.isfinite(v)},
                trial_id=number,
            )
        )
    return study


def front(records: Sequence[Record], objectives: Sequence[Objective]) -> list[Record]:
    """Returns the best trial, the first of equals; with several objectives the Pareto front, most balanced first."""
    complete = [record for record in records if record.state == "complete" and record.objectives]
    best = [complete[t.number] for t in as_study(complete, {}, objectives).best_trials]
    if len(objectives) == 1 or not best:
        return best[:1]
    chosen = best[most_balanced([record.objectives or () for record in best], [o.mode for o in objectives])]
    return [chosen, *(record for record in best if record is not chosen)]


def most_balanced(points: Sequence[Sequence[float]], modes: Sequence[str]) -> int:
    """Returns the index of the point that is nearest to the best of each objective at once.

    Each objective is scaled to 0 for the best and 1 for the worst on the front; the distance is Euclid's.
    """
    columns = zip(zip(*points, strict=True), modes, strict=True)
    ranges = [(max(column), min(column)) if mode == "max" else (min(column), max(column)) for column, mode in columns]

    def distance(point: Sequence[float]) -> float:
        parts = [(value - good) / (bad - good) for value, (good, bad) in zip(point, ranges, strict=True) if bad != good]
        return math.hypot(*parts)

    return min(range(len(points)), key=lambda index: distance(points[index]))


@dataclass(frozen=True)
class Importances:
    """How much each setting matters for an objective; the shares of each measure sum to 1, the largest comes first.

    PED-ANOVA compares where good trials lie with where all lie, and knows conditional settings too; fANOVA splits the
    variance of a random forest's predictions, over the settings that all trials have. Where a sampler concentrates its
    trials, PED-ANOVA can take that for importance, so neither is shown without the other.

    Attributes:
        metric: The objective.
        ped_anova: Shares by key.
        fanova: The same, without conditional settings; None where scikit-learn is missing.
        caution: Where the two disagree; empty where they agree.
    """

    metric: str
    ped_anova: Mapping[str, float]
    fanova: Mapping[str, float] | None
    caution: str

    @property
    def ranking(self) -> list[str]:
        """The settings, the most important first, by fANOVA where there is one."""
        return list(self.fanova or self.ped_anova)


def importances(
    records: Sequence[Record],
    space: Mapping[str, Dimension],
    objectives: Sequence[Objective],
    index: int,
    sampler: str,
) -> Importances | None:
    """Measures how much each setting matters for an objective.

    Args:
        records: The trials; complete ones count.
        space: What was searched.
        objectives: All objectives.
        index: The objective that is measured.
        sampler: What has drawn the trials.

    Returns:
        None where too few trials are complete, or all have the same value.
    """
    from optuna.importance import PedAnovaImportanceEvaluator

    complete = [record for record in records if record.state == "complete" and record.objectives and record.values]
    if len(complete) < MIN_TRIALS or len({record.objectives[index] for record in complete if record.objectives}) == 1:
        return None
    ped_anova = _shares(as_study(complete, space, objectives, index), PedAnovaImportanceEvaluator())
    every = -(-len(complete) // MAX_FANOVA_TRIALS)
    fanova = _fanova(as_study(complete[::every], space, objectives, index))
    caution = disagreement(ped_anova, fanova or {}, sampler)
    return Importances(objectives[index].metric, ped_anova, fanova, caution)


def disagreement(ped_anova: Mapping[str, float], fanova: Mapping[str, float], sampler: str) -> str:
    """Returns where two measures disagree on the settings that both know; an empty string where they agree."""
    both = [key for key in fanova if key in ped_anova]
    totals = [sum(measure[key] for key in both) for measure in (ped_anova, fanova)]
    if len(both) < 2 or not all(totals):
        return ""
    ped, forest = (
        {key: measure[key] / total for key in both} for measure, total in zip((ped_anova, fanova), totals, strict=True)
    )
    first, second = max(ped, key=ped.__getitem__), max(forest, key=forest.__getitem__)
    widest = max(both, key=lambda key: abs(ped[key] - forest[key]))
    if first == second and abs(ped[widest] - forest[widest]) <= DISAGREEMENT:
        return ""
    if first != second:
        text = f"PED-ANOVA ranks {first} first ({ped[first]:.2f}; fANOVA: {forest[first]:.2f}), fANOVA ranks {second} "
        text += f"first ({forest[second]:.2f}; PED-ANOVA: {ped[second]:.2f})."
    else:
        text = f"They differ on {widest}: {ped[widest]:.2f} by PED-ANOVA, {forest[widest]:.2f} by fANOVA."
    concentrated = f" sampler={sampler} concentrates its trials, which PED-ANOVA can take for importance;"
    return f"{text}{'' if sampler in RANDOM_SAMPLERS else concentrated} look at the slices before you trust either."


def _fanova(study: optuna.Study) -> dict[str, float] | None:
    from optuna.importance import FanovaImportanceEvaluator

    try:
        return _shares(study, FanovaImportanceEvaluator(seed=0))
    except ImportError:
        return None


def _shares(
    study: optuna.Study, evaluator: PedAnovaImportanceEvaluator | FanovaImportanceEvaluator
) -> dict[str, float]:
    from optuna.importance import get_param_importances

    return {key: float(share) for key, share in get_param_importances(study, evaluator=evaluator).items()}
