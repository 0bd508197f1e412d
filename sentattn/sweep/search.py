"""Runs the studies of a sweep; `sentattn.search` returns one as an `optuna.Study`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import optuna

from sentattn.config.arguments import as_arguments
from sentattn.config.request import read_request
from sentattn.errors import Fault, RunError, SettingError
from sentattn.run import SWEEPS
from sentattn.sweep.execution import resources
from sentattn.sweep.execution.local import LocalEngine
from sentattn.sweep.execution.progress import SweepProgress
from sentattn.sweep.execution.scheduler import Scheduler
from sentattn.sweep.report.artifacts import train_arguments
from sentattn.sweep.report.callback import ReportCallback
from sentattn.sweep.spec.config import read_plan
from sentattn.sweep.study import storage as storages
from sentattn.sweep.study.records import front, records
from sentattn.sweep.study.study import SweepStudy

if TYPE_CHECKING:
    from sentattn.sweep.execution.interfaces import Engine
    from sentattn.sweep.execution.resources import Slot
    from sentattn.sweep.spec.plan import Plan


class SearchStudy(optuna.Study):
    """An `optuna.Study` with the settings of its best trial; `folder` has its report and the runs of the trials."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        name = storages.load(folder, plan.storage).study_name
        super().__init__(name, storages.open_storage(folder, plan.storage))
        self.plan, self.folder = plan, folder

    @property
    def best_settings(self) -> list[str]:
        """Arguments of `sentattn.fit` that train the setting of the best trial, and test it.

        With several objectives, it is the most balanced trial of the Pareto front. Where a range has the tag `zero`,
        `best_params` has what Optuna drew: a number below the range stands for 0.

        Raises:
            RunError: If no trial is complete.
        """
        if not (best := front(records(self), self.plan.modes)):
            raise RunError(Fault("study", "missing", f"{self.folder.name}: no trial is complete yet."))
        return train_arguments(self.plan, best[0].values)


def search(overrides: str | Sequence[str] = (), trials: int | None = None, **options: object) -> SearchStudy:
    """Searches settings as `python -m sentattn.sweep` does, and returns the study; the same call resumes it.

    Args:
        overrides: Settings and ranges such as `["data=demo", "model.attention.hops=range(1,9)"]`.
        trials: How many trials to finish; None for the number of the sweep file, or 20 without one and without `hours`.
        options: Options of the command, such as `study="hops"`, `sweep="default"`, `hours=2` and `sampler="gp"`. Those
            with a dot, such as `sampler.multivariate=true`, are overrides.

    Raises:
        UserError: If the sweep cannot be run, or its trials fail one after another.
    """
    plan = read_plan(as_arguments(overrides, trials=trials, **options))
    if plan.studies:
        message = "sentattn.search runs one study, and this sweep starts several: type python -m sentattn.sweep."
        raise SettingError(Fault("sweep", "unsupported", message))
    [study], confirmed = run(plan)
    print(*confirmed, sep="\n", end="\n" if confirmed else "")
    return SearchStudy(study.plan, study.folder)


def run(plan: Plan) -> tuple[list[SweepStudy], list[str]]:
    """Runs or resumes the studies of a plan; returns them, and what their best settings reach with other seeds."""
    plans = plan.studies or (plan,)
    folders = [Path(plan.output_dir) / SWEEPS / study_plan.study for study_plan in plans]
    with ExitStack() as stack:
        engine, slots, places = _engine(plan, plans, folders[0] / "server.txt", stack)
        pairs = zip(plans, folders, strict=True)
        studies = [stack.enter_context(SweepStudy.open(study_plan, folder)) for study_plan, folder in pairs]
        for study in studies:
            print(_standing(study))
        print(places, flush=True)
        reports = [stack.enter_context(ReportCallback(study)) for study in studies]
        with SweepProgress(studies, len(slots)) as progress:
            Scheduler(studies, slots, engine, [progress, *reports]).run()
        return studies, [lines for report in reports if (lines := report.confirm())]


def _engine(plan: Plan, plans: Sequence[Plan], log: Path, stack: ExitStack) -> tuple[Engine, Sequence[Slot], str]:
    """Returns the engine of a sweep, its slots, and the line that describes them; connects to a cluster."""
    key, module = "trainer.accelerator=", "sentattn.sweep.execution.trial"
    studies = [study_plan.arguments({}) for study_plan in plans]
    try:
        accelerator = read_request(studies[0]).settings["trainer"]["accelerator"]
    except SettingError:  # a setting that is searched is missing
        accelerator = next((word.removeprefix(key) for word in plans[0].overrides if word.startswith(key)), "auto")
    budgets = [study_plan.trials for study_plan in plans]
    trials = None if None in budgets else sum(count or 0 for count in budgets)
    if plan.engine["name"] == "ray":
        from sentattn.sweep.execution import ray

        nodes = stack.enter_context(ray.connected(plan.engine["address"]))
        slots = ray.find_slots(nodes, plan, accelerator, trials)
        return ray.RayEngine(module, studies, log, nodes), slots, ray.description(slots, nodes)
    slots = resources.find(plan, accelerator, trials)
    return LocalEngine(module, studies, log), slots, f"{resources.slots_line(slots)}."


def _standing(study: SweepStudy) -> str:
    budget = study.plan
    parts = [f"{study.finished()} of {budget.trials} trials" if budget.trials else f"{study.finished()} trials"]
    if budget.hours:
        parts.append(f"{study.seconds() / 3600:.1f} of {budget.hours:g} hours")
    waiting = f"; {study.waiting()} waiting" if study.waiting() else ""
    return f"Study {study.folder}: {', '.join(parts)} done{waiting}."
