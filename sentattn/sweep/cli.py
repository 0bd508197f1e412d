"""Search settings: a training command in which some values are ranges. The same command again resumes the search.

usage: python -m sentattn.sweep [sweep=NAME] [KEY=VALUE ...] [KEY=RANGE ...]
       python -m sentattn.sweep status|stop|best [NAME]

Ranges, of any setting of a training:
  model.attention.hops=range(1,31)                   integers, without the end
  model.head.dropout=interval(0,0.5)                 numbers
  loss.penalty='tag(log,interval(1e-3,1))'           on a log scale; tag(log,zero,...) adds the point 0
  model/pooling=choice(flatten,mean,prune)           choices

  sweep=NAME           a file of sweeps/ (`python -m sentattn.list sweeps`) or a path; the command line replaces or
                       extends it. A bare command runs sweep=default, small and on the demo corpus
  study=NAME           the study, in outputs/sweeps/NAME; by default named after model and data
  trials=20 hours=8    the budget: finished trials, including pruned ones, or time
  objective.metric     val/accuracy, val/log_loss, latency_ms.one, parameters.total, ...
  sampler=tpe          gp, cmaes, random, qmc, grid, nsgaii, ...; its settings as sampler.multivariate=true
  pruner=NAME          ends bad trials early: percentile, median, hyperband, ...; none runs all of them to their end
  repeats=1            trainings per trial, with consecutive seeds; their mean is the objective

  slots=N              trials at once; by default one per GPU, or per core
  slots_per_gpu=4      trials that share a GPU; gpus_per_trial=2 trains each trial on two
  threads=N            CPU threads per trial
  limit_minutes=60     a trial that takes longer is killed
  retries=1            attempts after a trial has died; failures=5 in a row end the sweep
  keep=3               best trials that keep checkpoints and model; metrics and predictions of all are kept
  storage=URL          the study's database (SQLAlchemy); by default SQLite in the study's folder

  status   trials by state, and how far they are      stop   end a sweep that runs in another terminal: running
  best     the best setting, and how to train it             trials finish; a second time ends them too

Ctrl-C once: no new trials, running ones finish. Twice: the end; interrupted trials are run again next time.
Each trial is a run directory, outputs/sweeps/STUDY/trials/NUMBER, with its output in log.txt.

Examples:
  python -m sentattn.sweep
  python -m sentattn.sweep data=imdb 'model.attention.hops=range(1,31)' 'loss.penalty=tag(log,zero,interval(1e-3,1))'
  python -m sentattn.sweep sweep=structured_imdb data.limit=10000 trials=40
  python -m sentattn.sweep status structured-imdb
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.config import command_line
from sentattn.errors import Fault, RunError, SettingError, suggestion

if TYPE_CHECKING:
    from sentattn.sweep.plan import Plan
    from sentattn.sweep.records import Record
    from sentattn.sweep.resources import SlotRequest
    from sentattn.sweep.study import SweepStudy

SWEEPS, BEST, TRIAL, SERVER_LOG = "sweeps", "best.yaml", "sentattn.sweep.trial", "server.txt"
SHOWN = 10
"""Trials that `status` shows: the last ones."""
KEYS = {"output_dir": "str", "storage": "str"}
"""Settings of `status`, `stop` and `best`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    actions = {"status": status, "stop": stop, "best": best}
    if arguments and arguments[0] in actions:
        actions[arguments[0]](arguments[1:])
    else:
        sweep(arguments)


def sweep(arguments: Sequence[str], *, module: str = TRIAL) -> None:
    """Runs or resumes a sweep, and prints what it found.

    Args:
        arguments: The command line.
        module: What trials run, by its name.

    Raises:
        UserError: If the sweep cannot be run, or its trials fail one after another.
        Interruption: If a signal ended it.
    """
    from sentattn.sweep import resources
    from sentattn.sweep.config import read_plan
    from sentattn.sweep.engines.local import LocalEngine
    from sentattn.sweep.progress import progress
    from sentattn.sweep.report import report_callbacks
    from sentattn.sweep.report.callback import REPORT
    from sentattn.sweep.scheduler import Scheduler
    from sentattn.sweep.study import SweepStudy

    plan = read_plan(arguments)
    plans = plan.members or (plan,)
    request = _slot_request(plan, plans)
    slots = resources.find(request)
    for note in dict.fromkeys(note for one in plans for note in one.notes):
        print(note)
    with ExitStack() as stack:
        studies = [stack.enter_context(SweepStudy.open(one, folder(one))) for one in plans]
        for study in studies:
            print(_standing(study))
        print(resources.description(slots, request), flush=True)
        results = [report_callbacks(study, stack) for study in studies]
        with progress(studies, len(slots)) as shown:
            callbacks = [shown, *(one for pair in results for one in pair)]
            engine = LocalEngine(module, [one.arguments({}) for one in plans], folder(plans[0]) / SERVER_LOG)
            Scheduler(studies, slots, engine, callbacks).run()
        confirmed = [line for outcome, _ in results if (line := outcome.confirm())]
    for study in studies:
        print("\n".join(best_lines(study.folder, study.plan.storage)))
        print(f"report: {study.folder / REPORT}")
    print(*confirmed, sep="\n", end="\n" if confirmed else "")


def folder(plan: Plan) -> Path:
    """Returns the folder of a study."""
    return Path(plan.output_dir) / SWEEPS / plan.study


def status(arguments: Sequence[str]) -> None:
    """Prints how far studies are, and the last trials of each."""
    for one, url in _folders(arguments, running=False):
        print("\n".join(status_lines(one, url)))


def stop(arguments: Sequence[str]) -> None:
    """Ends a sweep as Ctrl-C does in its own terminal: once, and its running trials finish."""
    from sentattn.sweep.storage import owner

    for one, _ in _folders(arguments, running=True):
        if (pid := owner(one)) is None:
            raise RunError(Fault("study", "not_found", f"No process works on {one}; there is nothing to stop."))
        os.kill(pid, signal.SIGINT)
        print(f"{one.name}: process {pid} starts no new trials. The same command again ends the running ones too.")


def best(arguments: Sequence[str]) -> None:
    """Prints the best setting of a study, and how to train it."""
    for one, url in _folders(arguments, running=False):
        print("\n".join(best_lines(one, url)))


def status_lines(folder: Path, url: str | None = None) -> list[str]:
    """Returns how far a study is: which process works on it, its trials by state, the last of them, and the best."""
    from sentattn.sweep.records import read
    from sentattn.sweep.storage import owner

    found = read(folder, url)
    pid = owner(folder)
    counts = Counter(one.state for one in found)
    states = ", ".join(f"{count} {state}" for state, count in counts.items()) or "no trial yet"
    lines = [f"{folder.name}: {states}; {f'process {pid} works on it' if pid else 'no process works on it'}"]
    lines += [f"  {_line(one)}" for one in found[-SHOWN:]]
    return [*lines, *best_lines(folder, url)]


def best_lines(folder: Path, url: str | None = None) -> list[str]:
    """Returns the best setting of a study, or the front of several objectives, and the command that trains it."""
    from sentattn.sweep.records import best, records
    from sentattn.sweep.storage import load

    study = load(folder, url)
    objectives: list[list[str]] = study.user_attrs["objectives"]
    front = best(records(study), [mode for _, mode in objectives])
    if not front:
        return [f"{folder.name}: no trial is complete yet."]
    lines = [f"{folder.name}, best of {'; '.join(f'{metric} ({mode})' for metric, mode in objectives)}:"]
    lines += [f"  {_line(one)}" for one in front]
    return [*lines, f"train it: {train_command(folder, front[0].number)}"]


def train_command(folder: Path, number: int) -> str:
    """Returns the command that trains the best setting again, including the test set."""
    if (folder / BEST).is_file():
        return f"python -m sentattn.train from={shlex.quote(str(folder / BEST))}"
    run = folder / "trials" / str(number)
    run = next(iter(sorted(run.glob("seed-*"))), run)
    return f"python -m sentattn.train from={shlex.quote(str(run))} test=true"


def _line(one: Record) -> str:
    from sentattn.sweep.progress import format_objective, format_values

    objectives = f" {', '.join(map(format_objective, one.objectives))}" if one.objectives else ""
    error = f" ({one.error.splitlines()[0]})" if one.error else ""
    return f"trial {one.number}: {one.state}{objectives}{error}: {format_values(one.values) or 'no values yet'}"


def _folders(arguments: Sequence[str], *, running: bool) -> list[tuple[Path, str | None]]:
    """Returns the folders of the studies that are named, or of the only one there is, each with its storage."""
    from sentattn.sweep.storage import DATABASE, LOCK, owner

    given = command_line.raw_arguments(arguments, KEYS, positional="names")
    root, url = Path(given.get("output_dir", "outputs")) / SWEEPS, given.get("storage")
    names = sorted({file.parent.name for name in (DATABASE, LOCK) for file in root.glob(f"*/{name}")})
    if unknown := [name for name in given["names"] if name not in names]:
        known = f"There are {', '.join(names)}." if names else f"There is none in {root}."
        messages = [f"There is no study {name!r}.{suggestion(name, names)} {known}" for name in unknown]
        raise RunError(*(Fault("study", "not_found", message) for message in messages))
    if given["names"]:
        return [(root / name, url) for name in dict.fromkeys(given["names"])]
    found = [name for name in names if owner(root / name)] if running else names
    if not found:
        message = f"There is no study{' that a process works on' if running else ''} in {root}."
        raise RunError(Fault("study", "not_found", message))
    if len(found) > 1:
        raise RunError(Fault("study", "missing", f"Which study? There are {', '.join(found)}."))
    return [(root / found[0], url)]


def _slot_request(plan: Plan, plans: Sequence[Plan]) -> SlotRequest:
    from sentattn.sweep.resources import SlotRequest

    trials = [one.budget.trials for one in plans]
    return SlotRequest(
        accelerator=_accelerator(plans[0]),
        slots=plan.slots,
        slots_per_gpu=plan.slots_per_gpu,
        gpus_per_trial=plan.gpus_per_trial,
        threads=plan.threads,
        trials=None if None in trials else sum(count or 0 for count in trials),
    )


def _accelerator(plan: Plan) -> str:
    """Returns what trials compute with; where a setting that is searched is missing, as it was typed, or `auto`."""
    from sentattn.config.request import read_request

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
    retries = f"; {study.waiting()} to be run again" if study.waiting() else ""
    return f"Study {study.folder}: {', '.join(parts)} done{retries}."


if __name__ == "__main__":
    sys.exit(main())
