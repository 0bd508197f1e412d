"""Runs the studies of a sweep; `sentattn.search` returns one as an `optuna.Study`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import optuna

from sentattn.config.arguments import as_arguments
from sentattn.config.request import read_request
from sentattn.config.search_space import first_point
from sentattn.console import plural
from sentattn.errors import Fault, Interruption, RunError, SettingError
from sentattn.grid import Cell, Grid, prepare_data
from sentattn.jobs import scheduler
from sentattn.jobs.pool import LocalPool, Pool
from sentattn.jobs.progress import JobProgress
from sentattn.jobs.slots import Slot, find_slots, slots_line
from sentattn.run import REPORT_FILE, SWEEP_FOLDER, TRIALS_FILE, Run
from sentattn.sweep import journal
from sentattn.sweep.artifacts import (
    BEST_FILE,
    describe_confirmed,
    find_confirmed,
    train_arguments,
    write_best,
    write_confirmed,
)
from sentattn.sweep.config import read_plan
from sentattn.sweep.plan import Plan
from sentattn.sweep.records import TrialTask, front, values_of
from sentattn.sweep.study import SweepStudy


class SearchStudy(optuna.Study):
    """An `optuna.Study` with the settings of its best trial; `folder` has its report and the runs of the trials."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        super().__init__(journal.load(folder).study_name, journal.open_storage(folder)[0])
        self.plan, self.folder = plan, folder

    @property
    def best_settings(self) -> list[str]:
        """Arguments of `sentattn.fit` that train the setting of the best trial, and test it.

        With several objectives, it is the most balanced trial of the Pareto front. Where a range has the tag `zero`,
        `best_params` has what Optuna drew: a number below the range stands for 0.

        Raises:
            RunError: If no trial is complete.
        """
        if not (best := front(self)):
            raise RunError(Fault("study", "missing", f"{self.folder.name}: no trial is complete yet."))
        return train_arguments(self.plan, values_of(best[0], self.plan.space))


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
    """Runs or resumes the studies of a plan; returns them, and what their best settings reach with other seeds.

    Raises:
        UserError: If the data is unusable, the studies cannot be written, or trials fail one after another.
        Interruption: If a signal ended it.
    """
    plans = plan.studies or (plan,)
    with ExitStack() as stack:
        folders = [Path(plan.output_dir) / SWEEP_FOLDER / each.study for each in plans]
        pairs = zip(plans, folders, strict=True)
        studies = [stack.enter_context(SweepStudy.open(each, folder, run_trial)) for each, folder in pairs]
        for study in studies:
            stack.push(partial(write_files, study))
            print(_standing(study), flush=True)
        if all(study.over() for study in studies) and not plan.confirm:
            return studies, []
        local = LocalPool() if plan.engine == "local" else None  # it imports libraries meanwhile
        accelerator = _prepare(studies)
        counts = [each.trials and max(each.trials, each.confirm) for each in plans]
        jobs = None if None in counts else sum(filter(None, counts))
        pool, slots = _slots(plan, local, accelerator, jobs, stack)

        with JobProgress(studies, len(slots)) as progress:
            stopped = scheduler.run(studies, slots, pool, progress, partial(_tick, studies, {}))
        for study in studies:
            study.require_success()
        return studies, _confirm(studies, slots, pool, stopped)


def run_trial(task: TrialTask, threads: int, devices: int) -> None:
    """Trains a trial in its process; the scheduler does not import what that needs."""
    from sentattn.sweep import trial

    trial.run_trial(task, threads, devices)


def _standing(study: SweepStudy) -> str:
    budget = study.plan
    parts = [f"{study.finished()} of {budget.trials} trials" if budget.trials else f"{study.finished()} trials"]
    if budget.hours:
        parts.append(f"{study.seconds() / 3600:.1f} of {budget.hours:g} hours")
    waiting = f"; {study.waiting()} waiting" if study.waiting() else ""
    return f"Study {study.folder}: {', '.join(parts)} done{waiting}."


def _prepare(studies: Sequence[SweepStudy]) -> str:
    """Prepares the data of studies that are not over; returns the accelerator."""
    fingerprints: dict[str, str] = {}
    for study in studies:
        settings = read_request(study.plan.arguments(first_point(study.plan.space))).settings
        data = repr(settings["data"])
        if not study.over():
            fingerprints[data] = fingerprints.get(data) or prepare_data(settings)
            study.require_data(fingerprints[data])
    return str(settings["trainer"]["accelerator"])


def _slots(
    plan: Plan, local: LocalPool | None, accelerator: str, jobs: int | None, stack: ExitStack
) -> tuple[Pool, Sequence[Slot]]:
    """Returns what starts trials, and their slots; connects to a cluster where there is no pool of this machine."""
    if local is None:
        from sentattn.jobs.ray import connected

        cluster = stack.enter_context(connected(Path(plan.output_dir)))
        slots = cluster.find_slots(plan, accelerator, jobs)
        print(f"{slots_line(slots)}; {cluster}.", flush=True)
        return cluster, slots
    slots = find_slots(plan, accelerator, jobs)
    print(f"{slots_line(slots)}.", flush=True)
    return local, slots


def _confirm(studies: Sequence[SweepStudy], slots: Sequence[Slot], pool: Pool, stopped: int | None) -> list[str]:
    """Trains the best setting of each study with the seeds of `confirm`; returns the results in lines.

    All schedulers of a study take part, since a run that another process trains is waited for.

    Raises:
        UserError: If a training fails.
        Interruption: If a setting is to be trained, and the signal `stopped` has come before.
    """
    grids: dict[int, Grid] = {}
    winners: dict[int, int] = {}
    for number, study in enumerate(studies):
        plan = study.plan
        if plan.confirm and (found := front(study.optuna_study)):
            best = found[0]
            winners[number] = best.number
            if not find_confirmed(study.folder, best.number, plan.confirm):
                if stopped:
                    raise Interruption(stopped, "the same command confirms the best setting.")
                # The best of many trials is partly the best by chance in its seed, and so has other seeds here.
                seeds = [f"seed={plan.seed + plan.repeats}", f"seeds={plan.confirm}", f"output_dir={plan.output_dir}"]
                settings = read_request([*plan.arguments(values_of(best, plan.space)), "test=true", *seeds]).runs()
                cells = [Cell(f"{plan.study}, seed={each.seed}", {"seed": each.seed}, each) for each in settings]
                grids[number] = Grid(cells, plan.study)
                print(f"{plan.study}: trial {best.number} is tested with {plural(plan.confirm, 'other seed')}.")
    if any(grid.waiting() for grid in grids.values()):
        sources = list(grids.values())
        with JobProgress(sources, len(slots)) as progress:
            scheduler.run(sources, slots, pool, progress)
    for number, grid in grids.items():
        grid.require_finished()
        runs = [Run(path) for _, path in sorted(grid.runs.items())]
        write_confirmed(studies[number].plan, studies[number].folder, winners[number], runs)
    return [
        describe_confirmed(studies[number].plan, confirmed)
        for number, winner in winners.items()
        if (confirmed := find_confirmed(studies[number].folder, winner))
    ]


def _tick(studies: Sequence[SweepStudy], fronts: dict[str, set[int]]) -> None:
    for study in studies:
        study.tick()
        write_new_best(study, fronts)


def write_new_best(study: SweepStudy, fronts: dict[str, set[int]]) -> None:
    """Writes the best setting of a study that runs, where `fronts` has another one by the name of the study."""
    if study.front != fronts.get(study.name, set()):
        fronts[study.name] = {*study.front}
        with suppress(OSError):  # it is an error when the study ends
            write_best(study.plan, study.folder, front(study.optuna_study))


def write_files(study: SweepStudy, kind: type[BaseException] | None = None, *_: object) -> None:
    """Writes the files of a study when it ends, and logs one that is over to W&B.

    Args:
        study: The study.
        kind: The type of the error with which it has ended.

    Raises:
        RunError: If they cannot be written, and there is no other error; else that is printed.
    """
    from sentattn.sweep.report import write_report  # imports plotly
    from sentattn.sweep.wandb import log_study

    try:
        write_best(study.plan, study.folder, front(study.optuna_study))
        for line in write_report(study.plan, study.folder, study.optuna_study):
            print(line)
        if study.over() and study.is_leader() and front(study.optuna_study):
            log_study(study.plan, study.folder, study.optuna_study)
    except (OSError, json.JSONDecodeError) as error:  # the disk is full, or the folder is gone or another
        reason = getattr(error, "strerror", None) or error
        files = f"{BEST_FILE}, {TRIALS_FILE} and {REPORT_FILE} cannot be written ({reason})"
        message = f"{study.folder}: {files}. Free some space, and the same command writes them."
        if kind is None:
            raise RunError(Fault(str(study.folder), "unwritable", message)) from error
        print(message)
