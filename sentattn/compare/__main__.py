"""Compare finished runs: which setting is better, is it sure, and what did it cost?

usage: python -m sentattn.compare [FOLDER ...] [table=FILE,...] [split=test] [where=KEY=VALUE,...] [metric=accuracy]
                                  [margin=POINTS] [pairs=declared] [baseline=NAME] [gate=NEW,OLD] [plan=FILE.yaml]
                                  [reference=tfidf,nbsvm,...] [insight=true] [format=table] [output=FILE]
                                  [columns=NAME,...] [report=FILE] [figure=FILE] [panels=NAME,...] [to=wandb]
                                  [trust=true]

  FOLDER      run directories, `latest`, or folders that hold some at any depth; runs that differ in their seed only
              are one row. Trials of sweeps are left out unless their own directories are given
  table       predictions of other tools, alone or next to runs on the same texts: .csv, .tsv (or with .gz) or .parquet
              files with a line for each text, setting and seed. Columns: setting, seed (empty or absent: a single
              model, not one of several trainings), row or row_id, label, predicted or p_CLASS for each class; and data,
              group, score
  split       test (default), val, as for trials of a sweep, or the name under which `evaluate` has written predictions
              on other data
  where       only runs with these settings, such as where=data=imdb,model/attention=structured,model.attention.hops=4
  metric      what settings are ranked and tested by: accuracy (default), f1_macro, f1_weighted, log_loss, brier_score,
              recall:CLASS, f1:CLASS; of two classes auroc; of ordered classes mean_absolute_error, quadratic_kappa; of
              tables with such a column score
  margin      the difference within which two settings count as equivalent: points, which are hundredths of the metric,
              default 0.5; of log_loss, brier_score and mean_absolute_error their own unit, default 0.005
  pairs       declared (default): settings that are equal in all but one part, such as an attention and uniform weights
              over the same encoder, as one family of tests; all: every other pair too, marked as exploratory. Of at
              most six settings the best is compared with each other one, as exploratory
  baseline    the setting, by its name in the leaderboard, that each other one is tested against, as one family
  gate        the names of two settings: exit code 0 if the first is not worse than the second by more than the margin,
              one-sided at 5%, of several data sets on average; 1 if it is worse or undecided
  plan        a file that declares split, metric, margin, seeds, base (arguments that all have), and pairs of
              {a: {KEY: VALUE}, b: {KEY: VALUE}} before looking; of a table {a: {setting: NAME}, b: {setting: NAME}};
              and data: [imdb, yelp, demo] for a verdict over data sets
  reference   linear models over n-grams, fitted once on each choice of training rows: tfidf (TF-IDF of 1 and 2
              words, logistic regression), nbsvm (Wang and Manning 2012, 1 to 3 words). probe: logistic regression over
              the mean and over the first state of the pretrained encoder of the runs, which is not trained
  insight     true: whether the attention means anything, as a table below the leaderboard: how many tokens it reaches,
              what the prediction is without them and with other weights, and how far seeds and, on the demo, people
              agree, on a sample of 200 rows; a number, or all, for another sample. Kept with each run, so the next
              call is fast
  trust       trust=true reads texts with models of your own classes, for insight= and report=: it can run any code that
              a run names
  output_dir  folder for the runs of references; default outputs
  format      table (default) or markdown; with output=, csv, or predictions: a table that table= reads
  columns     columns of the leaderboard, such as accuracy,f1_macro,train_seconds; default all, in a terminal a few
  output      file for the leaderboard; with format=csv the tests are written next to it, as NAME-tests.csv, and
              those of insight= as NAME-insight.csv
  report      file for a page with charts, the numbers behind them, and texts on which settings disagree; of a single
              run directory it is written into it, as report.html
  figure      .pdf, .svg or .png file for a figure of a paper, one column wide and legible in grey: the differences of
              the pairs of the plan, or of the declared ones, with intervals and verdicts; accuracy against training
              time, and against data.train_size
  panels      panels of the figure, of pairs, cost and rows; default all
  to          wandb: a workspace and a report on Weights & Biases, of the runs, or trials of a study, that were logged
              to it; kept in FOLDER/wandb.json, so that the same command updates them

With three data sets or more, there is a verdict over them for each pair that is declared on three or more.
A verdict needs three seeds of each setting, except where all its trainings are equal, as those of references are.

Examples:
  python -m sentattn.compare outputs
  python -m sentattn.compare outputs/imdb where=data.max_length=600 pairs=all
  python -m sentattn.compare outputs/imdb format=markdown output=leaderboard.md report=report.html
  python -m sentattn.compare outputs/imdb format=markdown columns=accuracy,train_seconds
  python -m sentattn.compare outputs/imdb figure=figure.pdf
  python -m sentattn.compare outputs/imdb plan=plan.yaml
  python -m sentattn.compare outputs/imdb to=wandb
  python -m sentattn.compare outputs/imdb gate=structured,lstm_mean margin=1 && echo "not worse"
  python -m sentattn.compare table=predictions.csv baseline=majority metric=f1_macro
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.config import command_line
from sentattn.config.arguments import as_arguments
from sentattn.config.types import Tree
from sentattn.console import csv_lines, wrap
from sentattn.errors import Fault, RunError, SettingError, require_packages
from sentattn.rendering import PAGE_ENDINGS, PICTURE_ENDINGS, require_format
from sentattn.run import (
    CONFIG_FILE,
    EVALUATED_SPLITS,
    LATEST_RUN,
    REPORT_FILE,
    TRIALS_FILE,
    Run,
    load,
    write_atomically,
    writing,
)

if TYPE_CHECKING:
    from sentattn.compare.board import Leaderboard
    from sentattn.compare.comparison import Comparison

FAILED = 1
"""The exit code of a gate that is not passed."""
COMMA = re.compile(r",(?![^\[\]]*\])")
"""Outside the brackets of a list."""
REFERENCES = ("tfidf", "nbsvm", "probe")
LISTS = ("where", "columns", "reference", "table", "panels")
"""Options that are split at commas."""
ANALYSIS: dict[str, tuple[str, Any]] = {
    "split": ("str", "test"),
    "where": ("str", ""),
    "table": ("str", ""),
    "metric": ("str", "accuracy"),
    "margin": ("Positive", None),
    "pairs": ('Literal["declared", "all"]', "declared"),
    "baseline": ("str", None),
    "plan": ("str", None),
    "reference": ("str", ""),
    "insight": ('bool | Count | Literal["all"]', False),
    "trust": ("bool", False),
    "output_dir": ("str", "outputs"),
}
"""Type and default of each option that `leaderboard` has too."""
OPTIONS = ANALYSIS | {
    "gate": ("str", None),
    "format": ('Literal["table", "markdown", "csv", "predictions"]', "table"),
    "columns": ("str", ""),
    "output": ("str", None),
    "report": ("str", None),
    "figure": ("str", None),
    "panels": ("str", ""),
    "to": ('Literal["wandb"]', None),
}


@command_line.command
def main(arguments: list[str]) -> int | None:
    """Runs the command."""
    from sentattn.compare.across import gate

    options = _read_options(arguments)
    options["runs"] = paths = [load(text).path if text == LATEST_RUN else Path(text) for text in options["runs"]]
    studies = [path for path in paths if (path / TRIALS_FILE).is_file()]
    comparisons = [] if options["to"] and paths and studies == paths else _compare(paths, options)
    passes, result = gate(comparisons, options["gate"]) if options["gate"] else (True, "")
    if comparisons:
        _print(comparisons, options)
    if options["to"]:
        from sentattn.compare.dashboard import FILE, publish

        for line in publish(paths[0] / FILE, comparisons, studies):
            print(line, flush=True)
    if result:
        print("", *wrap(result), sep="\n")
    return None if passes else FAILED


def leaderboard(
    runs: Run | str | os.PathLike[str] | Iterable[Run | str | os.PathLike[str]] = (), **options: object
) -> Leaderboard:
    """Compares finished runs as `python -m sentattn.compare` does: which setting is better, and at what cost?

    Args:
        runs: Runs, run directories, or folders that hold some; one or several, or none with `table`.
        options: Options of the command: `table`, `split`, `where`, `metric`, `margin`, `pairs`, `baseline`, `plan`,
            `reference`, `insight`, `trust` and `output_dir`, such as `reference=["tfidf", "nbsvm"]`. A `Run` that is
            trusted needs no `trust`.

    Raises:
        UserError: If an option is wrong, or no finished run is left.
    """
    from sentattn.compare.board import Leaderboard

    several = [runs] if isinstance(runs, Run | str | os.PathLike) else list(runs)
    if any(isinstance(run, Run) and run.trust for run in several):
        options = {"trust": True, **options}
    # A path begins with "/" or "./", and so is none of the options.
    paths = [os.path.join(".", run.path if isinstance(run, Run) else os.path.expanduser(run)) for run in several]
    read = _read_options([*paths, *as_arguments((), **options)], ANALYSIS)
    return Leaderboard(_compare(list(map(Path, paths)), read))


def _read_options(arguments: Sequence[str], legal: Mapping[str, tuple[str, Any]] = OPTIONS) -> Tree:
    """Returns all options with defaults, of which some are legal; with a plan, split and margin are the plan's."""
    typed = command_line.raw_arguments(arguments, {key: kind for key, (kind, _) in legal.items()}, "runs")
    options = {key: default for key, (_, default) in OPTIONS.items()} | typed
    for key in LISTS:
        options[key] = [text for text in COMMA.split(options[key]) if text]
    if faults := list(_faults(options)):
        raise SettingError(*faults)
    written = [("report", PAGE_ENDINGS), ("figure", PICTURE_ENDINGS)]
    if options["format"] == "predictions":
        written.append(("output", (".csv", ".parquet")))
    for key, endings in written:
        if options[key]:
            require_format(Path(options[key]), key, endings)
    if options["plan"]:
        from sentattn.compare.plan import read_plan

        plan = options["plan"] = read_plan(Path(options["plan"]))
        for key in ("split", "metric", "margin"):
            options[key] = plan.content[key]
            if typed.get(key, options[key]) != options[key]:
                message = f"{key}={typed[key]}: the plan has {key}={options[key]}. Leave it out."
                raise SettingError(Fault(key, "conflict", message))
    for name in options["reference"]:
        require_packages("reference", f"reference={name}", ["sklearn"], "sentattn[report]")
    if options["to"]:
        require_packages("to", "to=wandb", ["wandb_workspaces"], "sentattn[dashboard]")
    return options


def _faults(options: Tree) -> Iterator[Fault]:
    """Yields the errors of options that have a legal type."""
    if not options["runs"] and not options["table"]:
        yield Fault("runs", "missing", "Give run directories or a folder that holds some, such as outputs, or table=.")
    if options["format"] in ("csv", "predictions") and not options["output"]:
        yield Fault("output", "missing", f"format={options['format']} needs output=FILE.csv.")
    for key in ("insight", "reference", "to") if not options["runs"] else ():
        if options[key]:
            text = f"{key} needs runs: a table of predictions has no models, no texts and no runs on W&B."
            yield Fault(key, "conflict", f"{text} Type the folder of runs, or leave {key} out.")
    if options["baseline"] and options["plan"]:
        yield Fault("baseline", "conflict", "The plan declares the pairs: leave out baseline.")
    for name in options["reference"]:
        if name not in REFERENCES:
            yield Fault("reference", "unknown", f"reference must be some of {', '.join(REFERENCES)}, got {name}.")
    if options["panels"]:
        from sentattn.compare.figure import panel_faults

        yield from panel_faults(options["panels"])
        if not options["figure"]:
            yield Fault("panels", "no_effect", "panels has no effect without figure=FILE: type both, or none.")
    for text in options["where"]:
        if "=" not in text:
            yield Fault("where", "type", f"where takes KEY=VALUE, such as where=data=imdb, got {text}.")
    if options["to"] and options["split"] not in EVALUATED_SPLITS:
        yield Fault("to", "conflict", f"W&B has split=test and split=val alone, not {options['split']}.")


def _compare(paths: Sequence[Path], options: Tree) -> list[Comparison]:
    """Returns the comparisons of the runs in some folders, with everything that the options ask for."""
    from sentattn.compare.across import common_texts, nothing_shared, of_one_family
    from sentattn.compare.comparison import read_comparisons, require_same_rows

    split = options["split"]
    comparisons: list[Comparison] = []
    faults: list[Fault] = []
    if paths:
        comparisons, faults = read_comparisons(paths, split=split, where=options["where"], trust=options["trust"])
    if options["table"]:
        from sentattn.compare.predictions import add_tables

        comparisons = add_tables(options["table"], comparisons, split)
    if options["reference"]:
        from sentattn.compare.references import add_references

        comparisons = add_references(options["reference"], comparisons, Path(options["output_dir"]))
    _warn(faults)
    rows = options["insight"]
    comparisons = [
        replace(
            comparison.by(options["metric"], options["margin"]),
            explore=options["pairs"] == "all",
            baseline=options["baseline"],
        )
        for comparison in comparisons
    ]
    if options["plan"]:
        from sentattn.compare.plan import apply

        comparisons = apply(options["plan"], comparisons, Path(options["output_dir"]))
    joint = of_one_family(comparisons)
    if fault := common_texts(comparisons) if joint[0].family else nothing_shared(comparisons):
        _warn([fault])
    else:
        comparisons = joint
    if options["figure"] and not comparisons[0].family:
        require_same_rows("figure", options["figure"], comparisons)
    if rows:
        from sentattn.compare import insight

        size = insight.ROWS if rows is True else None if rows == "all" else rows
        for number, comparison in enumerate(comparisons):
            insights, faults = insight.insights(comparison.settings, split, size)
            _warn(faults)
            comparisons[number] = replace(comparison, insights=insights)
    return comparisons


def _print(comparisons: Sequence[Comparison], options: Tree) -> None:
    """Prints the comparisons, and writes the files that the options name."""
    from sentattn.compare.board import Leaderboard
    from sentattn.compare.leaderboard import csv_rows, verdict_rows
    from sentattn.compare.predictions import write_table

    board, style = Leaderboard(comparisons), options["format"]
    tables = board.tables(options["columns"], markdown=style == "markdown")
    print(board.text(tables))
    if options["output"]:
        file = Path(options["output"])
        if style == "predictions":
            write_table(file, comparisons)
        elif style != "csv":
            _write(file, "\n\n".join(tables))
        else:
            written = {"": csv_rows(comparisons, options["columns"])}
            written["-tests"] = verdict_rows(comparisons, board.overall)
            if found := [(each.data, each.split, of_setting) for each in comparisons for of_setting in each.insights]:
                from sentattn.compare import insight

                written["-insight"] = insight.csv_rows(found)
            for name, rows in written.items():
                _write(file.with_name(f"{file.stem}{name}{file.suffix}"), "\n".join(csv_lines(rows)))
    runs = options["runs"]
    is_run = len(runs) == 1 and (runs[0] / CONFIG_FILE).is_file()
    if report := options["report"] or (runs[0] / REPORT_FILE if is_run else None):
        try:
            print(f"\nreport: {board.report(report)}")
        except RunError as error:
            if options["report"]:
                raise
            _warn(error.faults)  # it was not asked for, and the run may be another user's
    if options["figure"]:
        print(f"\nfigure: {board.figure(options['figure'], options['panels'])}")
    if options["to"]:
        print()


def _warn(faults: Iterable[Fault]) -> None:
    for fault in faults:
        print(f"warning: {fault}", file=sys.stderr)


def _write(path: Path, text: str) -> None:
    with writing(path, "output"):
        write_atomically(path, f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
