"""Compare finished runs: which setting is better, is it sure, and what did it cost?

usage: python -m sentattn.compare FOLDER [FOLDER ...] [split=test] [where=KEY=VALUE,...] [margin=POINTS]
                                  [pairs=declared] [plan=FILE.yaml] [reference=tfidf,nbsvm,...] [insight=true]
                                  [format=table] [output=FILE] [columns=NAME,...] [report=FILE] [figure=FILE]
                                  [to=wandb] [trust=true]

  FOLDER      run directories, `latest`, or folders that hold some at any depth; runs that differ in their seed only
              are one row. Trials of sweeps are left out unless their own directories are given
  split       test or val; by default test, and val for run directories of which none was tested, such as trials; or the
              name under which `evaluate` has written predictions on other data
  where       only runs with these settings, such as where=data=imdb,model/attention=structured,model.attention.hops=4
  margin      points of accuracy within which two settings count as equivalent; default 0.5
  pairs       declared (default): settings that are equal in all but one part, such as an attention and uniform weights
              over the same encoder, as one family of tests; all: every other pair too, marked as exploratory. Of at
              most six settings the best is compared with each other one, as exploratory
  plan        a file that declares split, metric, margin, seeds, base (arguments that all have), and pairs of
              {a: {KEY: VALUE}, b: {KEY: VALUE}} before looking
  reference   linear models over n-grams, fitted once on the same training rows: tfidf (TF-IDF of 1 and 2 words,
              logistic regression), nbsvm (Wang and Manning 2012, 1 to 3 words). probe: logistic regression over the
              mean and over the first state of the pretrained encoder of the runs, which is not trained
  insight     true: whether the attention means anything, as a table below the leaderboard: how many tokens it reaches,
              what the prediction is without them and with other weights, and how far seeds and, on the demo, people
              agree, on a sample of 200 rows; a number, or all, for another sample. Kept with each run, so the next
              call is fast
  trust       trust=true reads texts with models of your own classes, for insight= and report=: it can run any code that
              a run names
  output_dir  folder for the runs of references; default outputs
  format      table (default), markdown or csv
  columns     columns of the leaderboard, such as accuracy,f1_macro,train_seconds; default all, in a terminal a few
  output      file for the leaderboard; with format=csv the tests are written next to it, as NAME-tests.csv, and
              those of insight= as NAME-insight.csv
  report      file for a page with charts, the numbers behind them, and texts on which settings disagree; of a single
              run directory it is written into it, as report.html
  figure      .pdf, .svg or .png file for a figure of a paper, one column wide and legible in grey: the differences of
              the pairs of the plan, or of the declared ones, with intervals and verdicts; accuracy against training
              time, and against data.train_size
  to          wandb: a workspace and a report on Weights & Biases, of the runs, or trials of a study, that were logged
              to it; kept in FOLDER/wandb.json, so that the same command updates them

A verdict needs three seeds of each setting, except where all its trainings are equal, as those of references are.

Examples:
  python -m sentattn.compare outputs
  python -m sentattn.compare outputs/imdb where=data.max_length=600 pairs=all
  python -m sentattn.compare outputs/imdb format=markdown output=leaderboard.md report=report.html
  python -m sentattn.compare outputs/imdb format=markdown columns=accuracy,train_seconds
  python -m sentattn.compare outputs/imdb figure=figure.pdf
  python -m sentattn.compare outputs/imdb plan=plan.yaml
  python -m sentattn.compare outputs/imdb to=wandb
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.config import command_line
from sentattn.config.arguments import as_arguments
from sentattn.config.types import Tree
from sentattn.console import csv_lines
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

COMMA = re.compile(r",(?![^\[\]]*\])")
"""Outside the brackets of a list."""
REFERENCES = ("tfidf", "nbsvm", "probe")
OPTIONS: dict[str, tuple[str, Any]] = {
    "split": ("str", None),
    "where": ("str", ""),
    "margin": ("Positive", 0.5),
    "pairs": ('Literal["declared", "all"]', "declared"),
    "plan": ("str", None),
    "reference": ("str", ""),
    "insight": ('bool | Count | Literal["all"]', False),
    "trust": ("bool", False),
    "output_dir": ("str", "outputs"),
    "format": ('Literal["table", "markdown", "csv"]', "table"),
    "columns": ("str", ""),
    "output": ("str", None),
    "report": ("str", None),
    "figure": ("str", None),
    "to": ('Literal["wandb"]', None),
}
"""Type and default of each option."""
ANALYSIS = ("split", "where", "margin", "pairs", "plan", "reference", "insight", "trust", "output_dir")
"""Options that `leaderboard` has too."""


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    options = _read_options(arguments)
    options["runs"] = paths = [load(text).path if text == LATEST_RUN else Path(text) for text in options["runs"]]
    studies = [path for path in paths if (path / TRIALS_FILE).is_file()]
    comparisons = [] if options["to"] and studies == paths else _compare(paths, options)
    if comparisons:
        _print(comparisons, options)
    if options["to"]:
        from sentattn.compare.dashboard import FILE, publish

        for line in publish(paths[0] / FILE, comparisons, studies):
            print(line, flush=True)


def leaderboard(
    runs: Run | str | os.PathLike[str] | Iterable[Run | str | os.PathLike[str]], **options: object
) -> Leaderboard:
    """Compares finished runs as `python -m sentattn.compare` does: which setting is better, and at what cost?

    Args:
        runs: Runs, run directories, or folders that hold some; one or several.
        options: Options of the command: `split`, `where`, `margin`, `pairs`, `plan`, `reference`, `insight`, `trust`
            and `output_dir`, such as `reference=["tfidf", "nbsvm"]`. A `Run` that is trusted needs no `trust`.

    Raises:
        UserError: If an option is wrong, or no finished run is left.
    """
    from sentattn.compare.board import Leaderboard

    several = [runs] if isinstance(runs, Run | str | os.PathLike) else list(runs)
    if any(isinstance(run, Run) and run.trust for run in several):
        options = {"trust": True, **options}
    # A path begins with "/" or "./", and so is none of the options.
    paths = [os.path.join(".", run.path if isinstance(run, Run) else run) for run in several]
    read = _read_options([*paths, *as_arguments((), **options)], {key: OPTIONS[key] for key in ANALYSIS})
    return Leaderboard(_compare(list(map(Path, paths)), read))


def _read_options(arguments: Sequence[str], legal: Mapping[str, tuple[str, Any]] = OPTIONS) -> Tree:
    """Returns all options with defaults, of which some are legal; with a plan, split and margin are the plan's."""
    typed = command_line.raw_arguments(arguments, {key: kind for key, (kind, _) in legal.items()}, "runs")
    options = {key: default for key, (_, default) in OPTIONS.items()} | typed
    for key in ("where", "columns", "reference"):
        options[key] = [text for text in COMMA.split(options[key]) if text]
    if faults := list(_faults(options)):
        raise SettingError(*faults)
    for key, endings in (("report", PAGE_ENDINGS), ("figure", PICTURE_ENDINGS)):
        if options[key]:
            require_format(Path(options[key]), key, endings)
    if options["plan"]:
        from sentattn.compare.plan import read_plan

        plan = options["plan"] = read_plan(Path(options["plan"]))
        for key in ("split", "margin"):
            options[key] = plan.content[key]
            if typed.get(key, options[key]) != options[key]:
                message = f"{key}={typed[key]}: the plan has {key}={options[key]}. Leave it out."
                raise SettingError(Fault(key, "conflict", message))
    if options["to"]:
        require_packages("to", "to=wandb", ["wandb_workspaces"], "sentattn[dashboard]")
    return options


def _faults(options: Tree) -> Iterator[Fault]:
    """Yields the errors of options that have a legal type."""
    if not options["runs"]:
        yield Fault("runs", "missing", "Give run directories or a folder that holds some, such as outputs.")
    for name in options["reference"]:
        if name not in REFERENCES:
            yield Fault("reference", "unknown", f"reference must be some of {', '.join(REFERENCES)}, got {name}.")
    for text in options["where"]:
        if "=" not in text:
            yield Fault("where", "type", f"where takes KEY=VALUE, such as where=data=imdb, got {text}.")
    if options["to"] and options["split"] not in (None, *EVALUATED_SPLITS):
        yield Fault("to", "conflict", f"W&B has split=test and split=val alone, not {options['split']}.")


def _compare(paths: Sequence[Path], options: Tree) -> list[Comparison]:
    """Returns the comparisons of the runs in some folders, with everything that the options ask for."""
    from sentattn.compare.comparison import read_comparisons, require_same_rows

    split = options["split"] or _default_split(paths)
    comparisons, faults = read_comparisons(paths, split=split, where=options["where"], trust=options["trust"])
    if options["reference"]:
        from sentattn.compare.references import add_references, require_references

        require_references(options["reference"], comparisons)
        folder = Path(options["output_dir"])
        comparisons = [add_references(options["reference"], comparison, folder) for comparison in comparisons]
    _warn(faults)
    if options["plan"]:
        from sentattn.compare.plan import apply

        comparisons = [apply(options["plan"], comparisons, Path(options["output_dir"]))]
    if options["figure"]:
        require_same_rows("figure", options["figure"], comparisons)
    margin, explore, rows = options["margin"], options["pairs"] == "all", options["insight"]
    comparisons = [replace(comparison, margin=margin, explore=explore) for comparison in comparisons]
    if rows:
        from sentattn.compare import insight

        size = insight.ROWS if rows is True else None if rows == "all" else rows
        for number, comparison in enumerate(comparisons):
            insights, faults = insight.insights(comparison.settings, split, size)
            _warn(faults)
            comparisons[number] = replace(comparison, insights=insights)
    return comparisons


def _default_split(paths: Sequence[Path]) -> str:
    """Returns `val` for run directories of which none was tested, else `test`."""
    with suppress(RunError, KeyError, TypeError):  # of a folder, or of a run that is reported as damaged later
        is_tested = any("test/accuracy" in Run(path).metrics for path in paths)
        return "test" if is_tested or not all((path / CONFIG_FILE).is_file() for path in paths) else "val"
    return "test"


def _print(comparisons: Sequence[Comparison], options: Tree) -> None:
    """Prints the comparisons, and writes the files that the options name."""
    from sentattn.compare.board import Leaderboard, insight_lines, insight_rows
    from sentattn.compare.leaderboard import board_lines, csv_rows, verdict_rows

    board, style = Leaderboard(comparisons), options["format"]
    boards = ["\n".join(board_lines(comparison, style, options["columns"])) for comparison in comparisons]
    tables = [
        "\n".join([text, *insight_lines(comparison, style)])
        for text, comparison in zip(boards, comparisons, strict=True)
    ]
    print(board.text(tables))
    if options["output"]:
        file = Path(options["output"])
        if style != "csv":
            _write(file, tables)
        else:
            _write(file, csv_lines(csv_rows(comparisons, options["columns"])), "\n")
            _write(file.with_name(f"{file.stem}-tests{file.suffix}"), csv_lines(verdict_rows(comparisons)), "\n")
            if any(comparison.insights for comparison in comparisons):
                found = csv_lines(insight_rows(comparisons))
                _write(file.with_name(f"{file.stem}-insight{file.suffix}"), found, "\n")
    run = options["runs"][0]
    is_run = len(options["runs"]) == 1 and (run / CONFIG_FILE).is_file()
    if report := options["report"] or (run / REPORT_FILE if is_run else None):
        try:
            print(f"\nreport: {board.report(report)}")
        except RunError as error:
            if options["report"]:
                raise
            _warn(error.faults)  # it was not asked for, and the run may be another user's
    if options["figure"]:
        print(f"\nfigure: {board.figure(options['figure'])}")
    if options["to"]:
        print()


def _warn(faults: Iterable[Fault]) -> None:
    for fault in faults:
        print(f"warning: {fault}", file=sys.stderr)


def _write(path: Path, texts: Sequence[str], separator: str = "\n\n") -> None:
    with writing(path, "output"):
        write_atomically(path, separator.join(texts) + "\n")


if __name__ == "__main__":
    sys.exit(main())
