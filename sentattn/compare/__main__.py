"""Compare finished runs: which setting is better, is it sure, and what did it cost?

usage: python -m sentattn.compare FOLDER [FOLDER ...] [split=test] [where=KEY=VALUE,...] [margin=POINTS]
                                  [pairs=declared] [plan=FILE.yaml] [write_plan=true]
                                  [reference=tfidf,nbsvm,fasttext] [insight=true] [format=table] [output=FILE]
                                  [report=FILE] [to=wandb]

  FOLDER      run directories, or folders that hold some at any depth; runs that differ in their seed only are one row.
              Trials of sweeps are left out unless their own directories are given
  split       test or val; by default test, and val for run directories of which none was tested, such as trials; or the
              name under which `evaluate` has written predictions on other data
  where       only runs with these settings, such as where=data=imdb,model.attention.hops=4
  margin      points of accuracy within which two settings count as equivalent; default 0.5
  pairs       declared (default): settings that are equal in all but one part, such as an attention and uniform weights
              over the same encoder, as one family of tests; all: every other pair too, marked as exploratory. Of at
              most six settings the best is compared with each other one, as exploratory
  plan        a file that declares the pairs, their seeds, the split and the margin before looking: split, metric,
              margin, seeds, base (arguments that all have), and pairs of {a: {KEY: VALUE}, b: {KEY: VALUE}}
  write_plan  true: writes such a file, with the pairs that the runs' settings make; no prediction is read
  reference   linear models over n-grams, fitted once on the same training rows: tfidf (TF-IDF of 1 and 2 words,
              logistic regression), nbsvm (Wang and Manning 2012, 1 to 3 words), fasttext (Joulin et al. 2016, 1 and 2
              words, three seeds; where it is installed)
  insight     true: what the attention means, as tables below the leaderboard: the shape of the weights, their
              faithfulness and, on the demo, plausibility, on a sample of 200 rows; a number, or all, for another
              sample. Kept with each run, so the next call is fast
  output_dir  folder for the runs of references; default outputs
  format      table (default), markdown, csv or latex
  output      file for the leaderboard; with format=csv the tests are written next to it, as NAME-tests.csv
  report      file for a page with charts, the numbers behind them, and texts on which settings disagree; of a single
              run directory it is written into it, as report.html

Intervals and tests count test rows and seeds: they are about another training on other rows. Where rows belong to
groups, such as the films of IMDB, groups count in place of rows. A verdict needs three seeds of each setting, except
where all its trainings are equal, as those of references are.

Examples:
  python -m sentattn.compare outputs
  python -m sentattn.compare outputs/imdb where=data.max_length=600 pairs=all
  python -m sentattn.compare outputs/imdb format=markdown output=leaderboard.md
  python -m sentattn.compare outputs/imdb report=report.html
  python -m sentattn.compare outputs/imdb plan=plan.yaml write_plan=true
  python -m sentattn.compare outputs/imdb plan=plan.yaml
  python -m sentattn.compare outputs/imdb to=wandb
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.config import command_line
from sentattn.errors import Fault, RunError, SettingError, suggestion
from sentattn.run import CONFIG, SPLITS, TRIALS, Run, write_atomically

if TYPE_CHECKING:
    from sentattn.compare.comparison import Comparison
    from sentattn.compare.insight import Insight

PAGES = (".html", ".htm")
REFERENCES = ("tfidf", "nbsvm", "fasttext")
OPTIONS: dict[str, tuple[str, Any]] = {
    "split": ("str", None),
    "where": ("str", ""),
    "margin": ("Positive", 0.5),
    "pairs": ('Literal["declared", "all"]', "declared"),
    "plan": ("str", None),
    "write_plan": ("bool", False),
    "reference": ("str", ""),
    "insight": ('bool | Count | Literal["all"]', False),
    "output_dir": ("str", "outputs"),
    "format": ('Literal["table", "markdown", "csv", "latex"]', "table"),
    "output": ("str", None),
    "report": ("str", None),
    "to": ('Literal["wandb"]', None),
}
"""Type and default of each option."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    options = _read_options(arguments)
    paths = [Path(text) for text in options["runs"]]
    studies = [path for path in paths if (path / TRIALS).is_file()]
    if options["write_plan"]:
        _write_plan(paths, options)
        return
    comparisons = [] if options["to"] and studies == paths else _compare(paths, options)
    if comparisons:
        _print(comparisons, options)
    if options["to"]:
        from sentattn.compare.dashboard import publish
        from sentattn.loggers.wandb.dashboard import FILE

        for line in publish(paths[0] / FILE, comparisons, studies):
            print(line, flush=True)


def _read_options(arguments: Sequence[str]) -> dict[str, Any]:
    """Returns the options with defaults; with a plan, the split and the margin are the plan's.

    Raises:
        SettingError: If an option is illegal, or does not fit another.
    """
    typed = command_line.raw_arguments(arguments, {key: kind for key, (kind, _) in OPTIONS.items()}, "runs")
    options = {key: default for key, (_, default) in OPTIONS.items()} | typed
    options["where"], options["reference"] = (
        [text for text in options[key].split(",") if text] for key in ("where", "reference")
    )
    if not options["runs"]:
        raise SettingError(
            Fault("runs", "missing", "Give run directories or a folder that holds some, such as outputs.")
        )
    if unknown := [name for name in options["reference"] if name not in REFERENCES]:
        legal = ", ".join(REFERENCES)
        message = f"reference={unknown[0]} is unknown.{suggestion(unknown[0], REFERENCES)} It takes {legal}."
        raise SettingError(Fault("reference", "unknown", message))
    if wrong := [text for text in options["where"] if "=" not in text]:
        raise SettingError(Fault("where", "type", f"where takes KEY=VALUE, such as where=data=imdb, got {wrong[0]}."))
    if options["report"] and Path(options["report"]).suffix.lower() not in PAGES:
        name = Path(options["report"]).with_suffix(PAGES[0])
        message = (
            f"report={options['report']}: a report is an HTML page, so its name ends in .html; type report={name}."
        )
        raise SettingError(Fault("report", "unsupported", message))
    if options["write_plan"]:
        if not options["plan"]:
            raise SettingError(Fault("plan", "missing", "write_plan=true needs a file to write: plan=FILE.yaml."))
        return options
    if options["plan"]:
        from sentattn.compare.plan import read_plan

        plan = options["plan"] = read_plan(Path(options["plan"]))
        for key in ("split", "margin"):
            options[key] = plan.content[key]
            if typed.get(key, options[key]) != options[key]:
                message = f"{key}={typed[key]}: the plan has {key}={options[key]}. Leave it out."
                raise SettingError(Fault(key, "conflict", message))
    if options["to"]:
        if options["split"] not in (None, *SPLITS):
            message = f"to={options['to']} shows split=test or split=val, which W&B has, not {options['split']}."
            raise SettingError(Fault("to", "conflict", message))
        from sentattn.loggers.wandb.dashboard import require_package

        require_package()
    return options


def _write_plan(paths: Sequence[Path], options: dict[str, Any]) -> None:
    """Writes a plan, and prints it."""
    from sentattn.compare.plan import write_plan

    path = Path(options["plan"])
    plan, faults = write_plan(path, paths, split=options["split"] or "test", margin=options["margin"])
    _warn(faults)
    print("\n".join([*plan.lines, "", f"plan: {path} (SHA-256 {plan.digest}); edit it before you look at results."]))


def _compare(paths: Sequence[Path], options: dict[str, Any]) -> list[Comparison]:
    """Returns the comparisons of the runs in some folders, with everything that the options ask for."""
    from sentattn.compare.comparison import read_comparisons

    split = options["split"] or _default_split(paths)
    comparisons, faults = read_comparisons(paths, split=split, where=options["where"])
    if options["reference"]:
        from sentattn.compare.references import add_references

        folder = Path(options["output_dir"])
        comparisons = [add_references(options["reference"], comparison, folder) for comparison in comparisons]
    _warn(faults)
    if options["plan"]:
        from sentattn.compare.plan import apply

        comparisons = [apply(options["plan"], comparisons)]
    explore, rows = options["pairs"] == "all", options["insight"]
    return [
        replace(comparison, margin=options["margin"], explore=explore, insights=_insights(comparison, rows))
        for comparison in comparisons
    ]


def _default_split(paths: Sequence[Path]) -> str:
    """Returns `val` for run directories of which none was tested, else `test`."""
    with suppress(RunError, KeyError, TypeError):  # of a folder, or of a run that is reported as damaged later
        is_tested = any("test/accuracy" in Run(path).metrics for path in paths)
        return "test" if is_tested or not all((path / CONFIG).is_file() for path in paths) else "val"
    return "test"


def _insights(comparison: Comparison, rows: bool | int | str) -> list[Insight]:
    """Returns the attentions' diagnostics on a sample of the rows: `True` for its default size, a number, or `all`."""
    if not rows:
        return []
    from sentattn.compare import insight

    size = insight.ROWS if rows is True else None if isinstance(rows, str) else rows
    insights, faults = insight.insights(comparison.settings, comparison.split, size)
    _warn(faults)
    return insights


def _print(comparisons: Sequence[Comparison], options: dict[str, Any]) -> None:
    """Prints the comparisons, and writes the files that the options name."""
    from sentattn.compare.insight_table import lines
    from sentattn.compare.leaderboard import board_lines, message_lines, verdict_lines

    if len(comparisons) > 1:
        print("These runs have different rows; each table below is about runs with the same rows.\n")
    style = options["format"]
    boards = []
    for comparison in comparisons:
        tables = lines(comparison.insights, style, rows=len(comparison.rows.labels_N))
        boards.append("\n".join([*board_lines(comparison, style), *tables]))
    messages = ["\n".join(message_lines(comparison)) for comparison in comparisons]
    print("\n\n".join(text for texts in zip(boards, messages, strict=True) for text in texts if text))
    if options["output"]:
        file = Path(options["output"])
        _write(file, boards)
        if style == "csv":
            tests = ["\n".join(verdict_lines(comparison)) for comparison in comparisons]
            _write(file.with_name(f"{file.stem}-tests{file.suffix}"), tests)
    run = Path(options["runs"][0])
    is_run = len(options["runs"]) == 1 and (run / CONFIG).is_file()
    if report := options["report"] or (run / "report.html" if is_run else None):
        from sentattn.compare.report.page import write_report

        for warning in write_report(Path(report), comparisons):
            print(f"warning: {warning}", file=sys.stderr)
        print(f"\nreport: {report}")
    if options["to"]:
        print()


def _warn(faults: Iterable[Fault]) -> None:
    for fault in faults:
        print(f"warning: {fault}", file=sys.stderr)


def _write(path: Path, texts: Sequence[str]) -> None:
    try:
        write_atomically(path, "\n\n".join(texts) + "\n")
    except OSError as error:
        message = f"output={path} cannot be written: {error.strerror}."
        raise RunError(Fault("output", "unwritable", message)) from error


if __name__ == "__main__":
    sys.exit(main())
