"""Train a model, keep its best epoch by validation, test it once, write the run.

usage: python -m sentattn.train [KEY=VALUE ...] [from=DIR] [resume=DIR] [trust=true] [seeds=N] [check=true]
                                [--cfg job] [--config-dir FOLDER]
       python -m sentattn.train -m [KEY=VALUE,VALUE,... ...] [seeds=N] [slots=N]

  data=demo                demo, imdb, yelp, table (your files) or hub (Hugging Face); data.limit=500 for a quick look
  model=structured         a variant; `python -m sentattn.list models` shows them all
  model.attention.hops=4   a setting of one of its parts; model/attention=uniform replaces the part itself
  model/embedding=ngrams   bigrams and trigrams next to the words; model/pooling=prune and model/encoder=cnn likewise
  loss.penalty=0.0         keeps the hops apart
  loss.class_weights=none  balanced, or a number for each class such as [1,2]
  data.vectors=null        glove.6B.300d, or a file: pretrained word vectors
  experiment               the settings of a source: experiment=gluon_yelp, experiment=keras_imdb, ...
  optimizer.lr=0.005       optimizer=adamw and scheduler=cosine replace optimizer and schedule
  trainer.max_epochs=8     like any other argument of Lightning's Trainer
  seed=0                   seed of the weights and of the order of the rows
  ema_decay=0.998          the weights evaluated are an average over steps; null uses the weights of the last step
  callbacks=early_stopping ends a training that no longer improves; also lr_monitor
  logger=wandb             csv, tensorboard, mlflow, several as [csv,wandb], or none
  output_dir=outputs       where the run is written

  seeds                    seeds=3 trains three runs, with the seeds from `seed` on
  data.folds               data.folds=5 tests each row of a table once, in five runs a seed; data.fold=2 trains one
  from                     from=DIR starts from the settings of a run, or of a file such as a sweep's best.yaml
  init_from=null           init_from=DIR starts from the weights of a finished run, as far as they fit
  resume                   resume=DIR continues an interrupted run to the same end; resume=auto finds it
  trust                    trust=true lets these load classes of your own, which can run any code
  check                    check=true stops before the training: shapes, parameters, the time of three steps, disk, and
                           whether the model leaves out padding.
                           match_parameters=RUN with it prints the model.head.width that trains as many parameters as
                           that run
  checkpoint_minutes=5     between two checkpoints inside an epoch; 0 writes one after each step

  trainer=default          ddp takes two devices (trainer.devices=8 for more); data.batch_size stays the rows of a step
  trainer.precision=auto   bf16-mixed on a GPU that has it, 32-true elsewhere; matmul_precision=high and compile=true
                           are faster on a GPU too
  threads=null             number of threads of a process on a CPU

  docs/settings.md lists all settings.

  -m, --multirun           train every combination of several values, as in model=structured,mean or
                           model.attention.hops=range(1,9), with each seed, and compare the settings. Runs are
                           trained side by side: one per GPU (slots_per_gpu=4 for more) or per core (threads=2 or
                           slots=1 for fewer). The same command again skips finished runs and resumes others

  --cfg job                print all settings and stop
  --config-dir FOLDER      also look for choices in a folder of your own, laid out as conf/

Examples:
  python -m sentattn.train
  python -m sentattn.train model=mean data=imdb seeds=3
  python -m sentattn.train -m model=structured,lstm_mean,mean data=imdb seeds=3
  python -m sentattn.train from=latest model.attention.hops=8
  python -m sentattn.train data=imdb resume=auto
  python -m sentattn.train data=table data.train=reviews.csv data.text=review data.label=stars
  python -m sentattn.train model.attention.hops=8 model/pooling=mean loss.penalty=0.3 logger=none
  python -m sentattn.train model=relation data=imdb data.path=aclImdb_v1.tar.gz data.max_length=100
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.config import command_line
from sentattn.config.hashing import reads_states
from sentattn.config.schema import FOLDS
from sentattn.config.targets import needed_trust
from sentattn.distributed.devices import rank_info
from sentattn.errors import Fault, RunError, SettingError, TrainingError
from sentattn.run import Run, yaml_text

if TYPE_CHECKING:
    from sentattn.trained import TrainedRun

MULTIRUN = ("-m", "--multirun")


def fit(overrides: str | Sequence[str] = (), *, data: Any = None) -> TrainedRun:
    """Trains as `python -m sentattn.train` does, and returns the run.

    Args:
        overrides: Settings such as `["model=structured", "data=demo"]`; `from=DIR` and `resume=DIR` too. A string is
            one of them.
        data: Rows in memory in place of the files of `data=table`, whose settings, such as `data.text=COLUMN`, say how
            they are read: a data frame of pandas, polars or pyarrow, a data set of Hugging Face, a dictionary of
            columns, or a dictionary of these by split (`train`, `val`, `test`). The run does not keep them: the same
            `data` is passed again to resume it, and what reads its texts again, such as a report, needs a file.

    Raises:
        UserError: With every fault.
    """
    from sentattn.config.request import read_request
    from sentattn.data.readers import memory
    from sentattn.distributed.ranks import connected
    from sentattn.trained import TrainedRun
    from sentattn.training.seeds import fit_seeds

    words = [overrides] if isinstance(overrides, str) else overrides
    with connected(rank_info()), ExitStack() as stack:
        request = read_request(words if data is None else memory.with_table(words))
        if len(request.runs()) > 1 or request.check:
            key = "check" if request.check else "seeds" if request.seeds > 1 else FOLDS
            message = f"sentattn.fit trains one run: leave {key} out, or type sentattn.fit_grid for several."
            raise SettingError(Fault(key, "unsupported", message))
        if data is not None:
            rows = stack.enter_context(memory.written(data, request.settings.data))
            request = replace(request, settings=replace(request.settings, data=rows))
        [run] = fit_seeds(request)
    return TrainedRun(run.path, trust=True)  # its classes are those of this process


def fit_grid(overrides: str | Sequence[str] = ()) -> list[TrainedRun]:
    """Trains every combination of several values and seeds, as `python -m sentattn.train -m` does; returns the runs.

    Runs are trained side by side in processes of their own. The same call again skips finished runs and resumes others.

    Args:
        overrides: Settings such as `["model=structured,mean", "data=demo", "seeds=3"]`; `slots` too.

    Returns:
        The runs: all settings with their first seed before any with its second.

    Raises:
        UserError: With every fault; of trainings that failed, after the end of the others.
    """
    from sentattn.grid import train_grid
    from sentattn.trained import TrainedRun

    grid = train_grid([overrides] if isinstance(overrides, str) else overrides)
    grid.require_finished()
    return [TrainedRun(path, trust=True) for _, path in sorted(grid.runs.items())]


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    if set(arguments) & set(MULTIRUN):
        from sentattn.compare.__main__ import leaderboard
        from sentattn.grid import train_grid

        grid = train_grid([word for word in arguments if word not in MULTIRUN])
        if grid.runs:
            try:
                board = leaderboard(grid.runs.values(), split="test" if grid.cells[0].settings["test"] else "val")
                print(f"\n{board}")
            except RunError:  # some folds alone, whose others may have been trained before
                _, folder, *_ = next(iter(grid.runs.values())).parents
                print(f"\ncompare all folds:\n  python -m sentattn.compare {shlex.quote(str(folder))}")
        grid.require_finished()
    elif here := rank_info():
        from sentattn.distributed.ranks import connected

        with connected(here):
            _train(arguments)
    else:  # faults of settings are reported before torch is imported
        _train(arguments)


def _train(arguments: list[str]) -> None:
    from sentattn.config.request import read_request
    from sentattn.data.readers import hub, tables

    rest, show = command_line.take_cfg(arguments)
    request = read_request(rest)
    settings = request.settings
    if show:
        print(yaml_text(settings), end="")
        return
    tables.check(settings.data)
    hub.check(settings.data)
    if request.check:
        from sentattn.training.dry_run import check
        from sentattn.training.resume import require_encoder

        if request.origin is not None:
            require_encoder(Run(request.origin), settings)
        check(settings, runs=len(request.runs()), match_parameters=request.match_parameters)
        return
    from sentattn.training.seeds import fit_seeds

    runs: list[Run] = []
    try:
        for run in fit_seeds(request):
            runs.append(run)
    except TrainingError:
        _report(runs)
        raise
    _report(runs)


def _report(runs: Sequence[Run]) -> None:
    """Prints the commands that compare the runs on these data, and read a text with the last of those trained."""
    from sentattn.distributed import ranks

    if ranks.is_rank_zero() and runs:
        path, settings = runs[-1].path, runs[-1].settings
        split = "" if settings["test"] else " split=val"
        print(f"compare it with others:\n  python -m sentattn.compare {shlex.quote(str(path.parents[1]))}{split}")
        read, source = ("predict states", "input=FILE") if reads_states(settings) else ("read a text", 'text="..."')
        print(f"{read} with it:\n{predict_command(path, needed_trust(settings), source)}")


def predict_command(path: Path, trust: str = "", source: str = 'text="..."') -> str:
    """Returns the command that predicts with a run, in lines of at most 80 columns where the path allows it."""
    command = f"  python -m sentattn.predict run={shlex.quote(str(path))}{trust}"
    return f"{command} {source}" if len(command) + len(source) < 80 else f"{command} \\\n    {source}"


if __name__ == "__main__":
    sys.exit(main())
