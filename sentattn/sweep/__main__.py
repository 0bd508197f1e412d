"""Search settings: a training command in which some values are ranges. The same command again resumes the search.

usage: python -m sentattn.sweep [sweep=NAME] [KEY=VALUE ...] [KEY=RANGE ...]
       python -m sentattn.sweep status|stop|best [NAME]

Ranges, of any setting of a training:
  model.attention.hops=range(1,31)                   integers, without the end
  model.head.dropout=interval(0,0.5)                 numbers
  loss.penalty='tag(log,interval(1e-3,1))'           on a log scale; tag(log,zero,...) adds the point 0
  model/pooling=choice(flatten,mean)                 choices

  sweep=NAME           a file of sweeps/ (`python -m sentattn.list sweeps`) or a path; the command line replaces or
                       extends it. A bare command runs sweep=default, small and on the demo corpus
  study=NAME           the study, in outputs/sweeps/NAME; by default named after model and data
  warm_start=STUDY     adds the finished trials of another study to a new one, as far as they lie in its search space
  trials=20 hours=8    the budget: finished trials, including pruned ones, or time
  objective.metric     val/accuracy, val/log_loss, latency_ms.one, parameters.total, ...
  sampler=tpe          gp, cmaes, random, qmc, grid, nsgaii, ...; its settings as sampler.multivariate=true
  pruner=NAME          ends bad trials early: percentile, median, hyperband, ...; none runs all of them to their end
  repeats=1            trainings per trial, with consecutive seeds; their mean is the objective

  slots=N              trials at once; by default one per GPU, or per core
  slots_per_gpu=4      trials that share a GPU; gpus_per_trial=2 trains each trial on two
  threads=N            CPU threads per trial
  engine=ray           trials on the nodes of a Ray cluster: engine.address=HOST:PORT, by default that of this machine;
                       output_dir= must be a folder that all nodes see
  limit_minutes=60     a trial that takes longer is killed
  retries=1            attempts after a trial has died; failures=5 in a row end the sweep
  keep=3               best trials that keep checkpoints and model; metrics and predictions of all are kept
  storage=URL          the study's database; by default SQLite in the study's folder. In PostgreSQL the same
                       command on several machines shares one study; `status`, `stop` and `best` take storage=URL too
  heartbeat=20         seconds between two heartbeats there: a scheduler that misses three is dead, and others run
                       its trials again

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

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.config import command_line
from sentattn.console import plural
from sentattn.errors import Fault, RunError, suggestion, without_passwords
from sentattn.run import REPORT, SWEEPS

if TYPE_CHECKING:
    from sentattn.sweep.spec.plan import Objective
    from sentattn.sweep.study.records import Record

LAST_TRIALS = 10
"""Trials that `status` prints."""


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    sys.argv[1:] = map(without_passwords, sys.argv[1:])  # W&B logs them
    actions = {"status": status, "stop": stop, "best": best}
    if arguments and arguments[0] in actions:
        for folder, url in _folders(arguments[1:], running=arguments[0] == "stop"):
            actions[arguments[0]](folder, url)
    else:
        sweep(arguments)


def sweep(arguments: Sequence[str]) -> None:
    """Runs or resumes a sweep, and prints its results.

    Raises:
        UserError: If the sweep cannot be run, or its trials fail one after another.
        Interruption: If a signal ended it.
    """
    from sentattn.sweep.search import run
    from sentattn.sweep.spec.config import read_plan

    studies, confirmed = run(read_plan(arguments))
    for study in studies:
        _print_best(study.folder, study.plan.objectives, study.best())
        print(f"report: {study.folder / REPORT}")
    print(*confirmed, sep="\n", end="\n" if confirmed else "")


def status(folder: Path, url: str | None) -> None:
    """Prints how far a study is: the processes that work on it, its trials by state, the last, the best, the report."""
    from sentattn.sweep.study.coordination import working
    from sentattn.sweep.study.records import read

    processes = working(folder, url)
    records = read(folder, url)
    if not processes:  # none has recorded that its trials were interrupted
        records = [replace(trial, state="interrupted") if trial.state == "running" else trial for trial in records]
    counts = Counter(record.state for record in records)
    states = ", ".join(f"{count} {state}" for state, count in counts.items()) or "no trial yet"
    peers = [f"{peer} works on {plural(peer.trials, 'trial')}" for peer in processes]
    print("; ".join([f"{folder.name}: {states}", *(peers or ["no process works on it"])]))
    for record in records[-LAST_TRIALS:]:
        print(f"  {_line(record)}")
    best(folder, url)
    if (folder / REPORT).is_file():
        print(f"report: {folder / REPORT}")


def stop(folder: Path, url: str | None) -> None:
    """Ends a sweep as Ctrl-C does in its own terminal: once, and its running trials finish."""
    from sentattn.sweep.study import coordination

    if not (asked := coordination.stop(folder, url)):
        raise RunError(Fault("study", "not_found", f"No process works on {folder}; there is nothing to stop."))
    for peer in asked:
        print(f"{folder.name}: {peer} starts no new trials.")
    print("The same command again ends the running ones too.")


def best(folder: Path, url: str | None) -> None:
    """Prints the best setting of a study, or the front of several objectives, and the command that trains it."""
    from sentattn.sweep.spec.plan import Objective
    from sentattn.sweep.study import records, storage

    study = storage.load(folder, url)
    objectives = [Objective(metric, mode) for metric, mode in study.user_attrs["objectives"]]
    _print_best(folder, objectives, records.front(records.records(study), [objective.mode for objective in objectives]))


def _print_best(folder: Path, objectives: Sequence[Objective], front: Sequence[Record]) -> None:
    if not front:
        print(f"{folder.name}: no trial is complete yet.")
        return
    names = "; ".join(f"{objective.metric} ({objective.mode})" for objective in objectives)
    print(f"{folder.name}, best of {names}:")
    for record in front:
        print(f"  {_line(record)}")
    if (setting := folder / "best.yaml").is_file():  # on the machines of its schedulers
        print(f"train it: python -m sentattn.train from={shlex.quote(str(setting))}")


def _line(record: Record) -> str:
    from sentattn.sweep.execution.progress import format_objective, format_values

    objectives = f" {', '.join(map(format_objective, record.objectives))}" if record.objectives else ""
    error = f" ({record.error.splitlines()[0]})" if record.error else ""
    values = format_values(record.values) or "no values yet"
    return f"trial {record.number}: {record.state}{objectives}{error}: {values}"


def _folders(arguments: Sequence[str], *, running: bool) -> list[tuple[Path, str | None]]:
    """Returns the folders of the studies that are named, or of the only one there is, each with its storage."""
    from sentattn.sweep.study.coordination import working
    from sentattn.sweep.study.storage import DATABASE, sweeps

    keys = {"output_dir": "str", "storage": "str"}
    options = command_line.raw_arguments(arguments, keys, positional="names")
    root, url = Path(options.get("output_dir", "outputs")) / SWEEPS, options.get("storage")
    names = sweeps(url) if url else sorted(file.parent.name for file in root.glob(f"*/{DATABASE}"))
    place = "storage" if url else root
    known = f"There are {', '.join(names)}." if names else f"There is none in {place}."
    messages = {name: f"There is no study {name!r}.{suggestion(name, names)} {known}" for name in options["names"]}
    faults = [Fault("study", "not_found", message) for name, message in messages.items() if name not in names]
    chosen = options["names"] or names
    if running:  # of the studies of one sweep the first: its process stops as a whole, and at once if asked twice
        processes = {name: tuple(map(str, working(root / name, url))) for name in chosen if name in names}
        first = {peers or name: name for name, peers in reversed(processes.items())}
        chosen = [name for name in reversed(first.values()) if processes[name] or options["names"]]
    if not options["names"] and len(chosen) != 1:
        works = " that a process works on" if running else ""
        message = f"Which study? There are {', '.join(chosen)}." if chosen else f"There is no study{works} in {place}."
        faults.append(Fault("study", "missing" if chosen else "not_found", message))
    if faults:
        raise RunError(*faults)
    return [(root / name, url) for name in dict.fromkeys(chosen)]


if __name__ == "__main__":
    sys.exit(main())
