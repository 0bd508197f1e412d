"""`python -m sentattn.sweep`: from the arguments to studies whose budgets are met."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from sentattn.config.request import read_request
from sentattn.errors import SettingError
from sentattn.sweep import slots
from sentattn.sweep.callbacks import SweepCallback
from sentattn.sweep.commands import best_lines
from sentattn.sweep.config import Plan, read_plan
from sentattn.sweep.member import Member
from sentattn.sweep.owner import Owner
from sentattn.sweep.report import report_callbacks
from sentattn.sweep.report.callback import REPORT
from sentattn.sweep.study import SweepStudy
from sentattn.sweep.table import watcher

SWEEPS, TRIAL = "sweeps", "sentattn.sweep.trial"


def sweep(arguments: Sequence[str], *, module: str = TRIAL) -> None:
    """Runs or continues a sweep, and tells what it found.

    Args:
        arguments: As they were typed.
        module: What trials run, by its name.

    Raises:
        UserError: If the sweep cannot be run, or its trials fail one after another.
        Interruption: If a signal ended it.
    """
    plan = read_plan(arguments)
    plans = plan.members or (plan,)
    wanted = _wanted(plan, plans)
    places = slots.find(wanted)
    for note in dict.fromkeys(note for one in plans for note in one.notes):
        print(note)
    with ExitStack() as held:
        studies = [held.enter_context(SweepStudy.open(one, folder(one))) for one in plans]
        for study in studies:
            print(_standing(study))
        print(slots.told(places, wanted), flush=True)
        members = [Member(study) for study in studies]
        onlookers = [report_callbacks(study, held) for study in studies]
        with watcher(members, len(places)) as shown:
            warming = [one.arguments({}) for one in plans]
            own = folder(plans[0])
            watchers: list[SweepCallback] = [shown, *(one for pair in onlookers for one in pair)]
            Owner(members, places, module=module, warming=warming, folder=own, watchers=watchers).run()
        confirmed = [line for outcome, _ in onlookers if (line := outcome.confirm())]
    for study in studies:
        print("\n".join(best_lines(study.folder)))
        print(f"report: {study.folder / REPORT}")
    print(*confirmed, sep="\n", end="\n" if confirmed else "")


def folder(plan: Plan) -> Path:
    """Returns where a study lies."""
    return Path(plan.output_dir) / SWEEPS / plan.study


def _wanted(plan: Plan, plans: Sequence[Plan]) -> slots.Wanted:
    trials = [one.budget.trials for one in plans]
    return slots.Wanted(
        accelerator=_accelerator(plans[0]),
        slots=plan.slots,
        slots_per_gpu=plan.slots_per_gpu,
        gpus_per_trial=plan.gpus_per_trial,
        threads=plan.threads,
        trials=None if None in trials else sum(count or 0 for count in trials),
    )


def _accelerator(plan: Plan) -> str:
    """What trials compute with; a setting that is searched may be missing, and then it is what was typed, or any."""
    try:
        accelerator: str = read_request(plan.arguments({})).settings["trainer"]["accelerator"]
    except SettingError:
        key = "trainer.accelerator="
        return next((word.removeprefix(key) for word in plan.overrides if word.startswith(key)), "auto")
    return accelerator


def _standing(study: SweepStudy) -> str:
    budget = study.plan.budget
    parts = [f"{study.finished()} of {budget.trials} trials" if budget.trials else f"{study.finished()} trials"]
    if budget.hours:
        parts.append(f"{study.seconds() / 3600:.1f} of {budget.hours:g} hours")
    again = f"; {study.waiting()} to be run again" if study.waiting() else ""
    return f"Study {study.folder}: {', '.join(parts)} done{again}."
