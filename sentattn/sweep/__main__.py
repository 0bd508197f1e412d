"""Search settings: a training command in which some values are ranges. The same command again resumes the search.

usage: python -m sentattn.sweep [sweep=NAME] [KEY=VALUE ...] [KEY=RANGE ...]
       python -m sentattn.sweep status [NAME]

Ranges, of any setting of a training:
  model.attention.hops=range(1,31)                   integers, without the end
  model.head.dropout=interval(0,0.5)                 numbers
  loss.penalty='tag(log,interval(1e-3,1))'           on a log scale; tag(log,zero,...) adds the point 0
  model/pooling=choice(flatten,mean)                 choices

  sweep=NAME           a file of sweeps/ (`python -m sentattn.list sweeps`) or a path; the command line replaces or
                       extends it. A bare command runs sweep=default, small and on the demo corpus
  study=NAME           the study, in outputs/sweeps/NAME; by default named after model and data. A study that exists is
                       resumed by its name and the sweep's own keys alone, as study=NAME trials=40
  trials=20 hours=8    the budget: finished trials, including pruned ones, or time
  objective.metric     val/accuracy, val/log_loss, latency_ms.one, parameters.total, ...
  sampler=tpe          gp, cmaes, random, qmc, nsgaii, ...; its settings as sampler.multivariate=true
  pruner=NAME          ends bad trials early: percentile, median, hyperband, ...; none runs all of them to their end
  repeats=1            trainings per trial, with consecutive seeds; their mean is the objective

  slots=N              trials at once; by default one per GPU, or per core
  slots_per_gpu=4      trials that share a GPU; gpus_per_trial=2 trains each trial on two
  threads=N            CPU threads per trial
  engine=ray           trials on the nodes of a Ray cluster, that of RAY_ADDRESS or of this machine; output_dir= must be
                       a folder that all nodes see
  limit_minutes=60     a trial that takes longer is killed
  retries=1            attempts after a trial has died; failures=5 in a row end the sweep
  keep=3               best trials that keep checkpoints and model; metrics and predictions of all are kept
  status               trials by state, the last ones, and the best setting with the command that trains it

The same command in another terminal, or on another machine that sees the folder, works on the same study.
Ctrl-C once: no new trials, running ones finish. Twice: the end; interrupted trials are run again next time.
Each trial is a run directory, outputs/sweeps/STUDY/trials/NUMBER, with its output in log.txt.

Examples:
  python -m sentattn.sweep
  python -m sentattn.sweep data=imdb 'model.attention.hops=range(1,31)' 'loss.penalty=tag(log,zero,interval(1e-3,1))'
  python -m sentattn.sweep sweep=structured_imdb data.limit=10000 trials=40
  python -m sentattn.sweep status structured-imdb
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.config import command_line
from sentattn.errors import Fault, RunError, suggestion
from sentattn.run import REPORT_FILE, SWEEP_FOLDER

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

LAST_TRIALS = 10
"""Trials that `status` prints."""


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    if "status" in arguments:
        arguments.remove("status")
        for folder in _folders(arguments):
            status(folder)
    else:
        sweep(arguments)


def sweep(arguments: Sequence[str]) -> None:
    """Runs or resumes a sweep, and prints its results.

    Raises:
        UserError: If the sweep cannot be run, or its trials fail one after another.
        Interruption: If a signal ended it.
    """
    from sentattn.sweep.config import read_plan
    from sentattn.sweep.search import run

    studies, confirmed = run(read_plan(arguments))
    for study in studies:
        _print_best(study.folder, study.optuna_study)
        print(f"report: {study.folder / REPORT_FILE}")
    print(*confirmed, sep="\n", end="\n" if confirmed else "")


def status(folder: Path) -> None:
    """Prints how far a study is: the processes that work on it, its trials by state, the last, the best, the report."""
    from sentattn.sweep import journal
    from sentattn.sweep.records import started, state_of

    with journal.readable(folder):
        study = journal.load(folder)
        trials = started(study)
        working = journal.schedulers(folder)
        states = {trial.number: state_of(trial) for trial in trials}
        if not working:  # no process has recorded that its trials were interrupted
            states = {number: "interrupted" if state == "running" else state for number, state in states.items()}
        counts = ", ".join(f"{count} {state}" for state, count in Counter(states.values()).items()) or "no trial yet"
        processes = f"{' and '.join(map(str, working.values()))} work{'s' * (len(working) == 1)} on it"
        print(f"{folder.name}: {counts}; {processes if working else 'no process works on it'}")
        for trial in trials[-LAST_TRIALS:]:
            print(f"  {_line(study, trial, states[trial.number])}")
        _print_best(folder, study)
    if (folder / REPORT_FILE).is_file():
        print(f"report: {folder / REPORT_FILE}")


def _print_best(folder: Path, study: Study) -> None:
    from sentattn.sweep.artifacts import BEST_FILE, train_command
    from sentattn.sweep.records import front
    from sentattn.sweep.resume import OBJECTIVES, OVERRIDES

    if not (best := front(study)):
        print(f"{folder.name}: no trial is complete yet.")
        return
    names = "; ".join(f"{metric} ({mode})" for metric, mode in study.user_attrs[OBJECTIVES])
    print(f"{folder.name}, best of {names}:")
    for trial in best:
        print(f"  {_line(study, trial, 'complete')}")
    if (setting := folder / BEST_FILE).is_file():
        print(f"train it: {train_command(setting, study.user_attrs[OVERRIDES])}")


def _line(study: Study, trial: FrozenTrial, state: str) -> str:
    from sentattn.config.search_space import from_json
    from sentattn.config.types import format_values
    from sentattn.jobs.progress import format_objective
    from sentattn.sweep.records import ERROR, SPACE, reached_by, values_of

    reached = ", ".join(map(format_objective, reached_by(trial) or ()))
    error = f" ({message.splitlines()[0]})" if (message := trial.user_attrs.get(ERROR)) else ""
    values = format_values(values_of(trial, from_json(study.user_attrs[SPACE]))) or "no values yet"
    return f"trial {trial.number}: {f'{state} {reached}'.strip()}{error}: {values}"


def _folders(arguments: Sequence[str]) -> list[Path]:
    """Returns the folders of the studies that are named, or of the only study that there is."""
    from sentattn.sweep.journal import FIRST_FORMAT, JOURNAL

    options = command_line.raw_arguments(arguments, {"output_dir": "str"}, positional="names")
    root = Path(options.get("output_dir", "outputs")) / SWEEP_FOLDER
    names = sorted({file.parent.name for name in (JOURNAL, *FIRST_FORMAT) for file in root.glob(f"*/{name}")})
    known = f"There are {', '.join(names)}." if names else f"There is none in {root}."
    messages = {name: f"There is no study {name!r}.{suggestion(name, names)} {known}" for name in options["names"]}
    faults = [Fault("study", "not_found", message) for name, message in messages.items() if name not in names]
    chosen = options["names"] or names
    if not options["names"] and len(chosen) != 1:
        kind = "missing" if chosen else "not_found"
        faults.append(Fault("study", kind, f"Which study? {known}" if chosen else f"There is no study in {root}."))
    if faults:
        raise RunError(*faults)
    return [root / name for name in dict.fromkeys(chosen)]


if __name__ == "__main__":
    sys.exit(main())
