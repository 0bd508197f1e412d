"""Search settings: a training command in which some values are ranges. The same command again goes on where it was.

usage: python -m sentattn.sweep [sweep=NAME] [KEY=VALUE ...] [KEY=RANGE ...]
       python -m sentattn.sweep status|stop|best [NAME]

Ranges, of any setting of a training:
  model.attention.hops=range(1,31)                   whole numbers, the end left out
  model.head.dropout=interval(0,0.5)                 numbers
  loss.penalty='tag(log,interval(1e-3,1))'           on a log scale; tag(log,zero,...) adds the point 0
  model/pooling=choice(flatten,mean,prune)           choices

  sweep=NAME           a file of sweeps/ (`python -m sentattn.list sweeps`) or a path; what is typed beside it is laid
                       over it. A bare command runs sweep=default, small and on the demo corpus
  study=NAME           the study, which lies in outputs/sweeps/NAME; by default named after model and data
  trials=20 hours=8    the budget: finished trials, those ended early among them, or time
  objective.metric     val/accuracy, val/log_loss, latency_ms.one, parameters.total, ...
  sampler=tpe          gp, cmaes, random, qmc, grid, nsgaii, ...; sampler.multivariate=true sets what it takes
  pruner=NAME          ends bad trials early: percentile, median, hyperband, ...; none lets all run to their end
  repeats=1            trainings a trial, with seeds from `seed` on; their mean is what counts

  slots=N              trials at once; by default one for each GPU, or for each core
  slots_per_gpu=4      trials that share a GPU; gpus_per_trial=2 trains each trial on two
  threads=N            of a trial on the processor
  limit_minutes=60     a trial that takes longer is ended
  retries=1            a trial that died is tried again; failures=5 in a row end the sweep
  keep=3               best trials that keep checkpoints and model; figures and predictions of all stay

  status   which trials there are, and how far they are       stop   end a sweep that runs elsewhere: running trials
  best     the best setting, and the command to train it             finish; a second time ends them too

Ctrl-C once: no new trials, running ones finish. Twice: the end; what ran is run again next time.
Each trial is a run directory, outputs/sweeps/STUDY/trials/NUMBER, with its log in log.txt.

Examples:
  python -m sentattn.sweep
  python -m sentattn.sweep data=imdb 'model.attention.hops=range(1,31)' 'loss.penalty=tag(log,zero,interval(1e-3,1))'
  python -m sentattn.sweep sweep=structured_imdb data.limit=10000 trials=40
  python -m sentattn.sweep status structured-imdb
"""

from __future__ import annotations

from collections.abc import Sequence

from sentattn.config import command_line

ACTIONS = ("status", "stop", "best")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    if arguments and arguments[0] in ACTIONS:
        from sentattn.sweep import commands

        getattr(commands, arguments[0])(arguments[1:])
    else:
        from sentattn.sweep.command import sweep

        sweep(arguments)
