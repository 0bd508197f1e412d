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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentattn.config import command_line
from sentattn.errors import Fault, RunError, SettingError, suggestion
from sentattn.run import SPLITS

PAGES = (".html", ".htm")
REFERENCES = ("tfidf", "nbsvm", "fasttext")
KEYS = {
    "split": "str",
    "where": "str",
    "margin": "Positive",
    "pairs": 'Literal["declared", "all"]',
    "plan": "str",
    "write_plan": "bool",
    "reference": "str",
    "insight": 'bool | Count | Literal["all"]',
    "output_dir": "str",
    "format": 'Literal["table", "markdown", "csv", "latex"]',
    "output": "str",
    "report": "str",
    "to": 'Literal["wandb"]',
}
DEFAULTS: dict[str, Any] = {
    "where": "",
    "margin": 0.5,
    "pairs": "declared",
    "write_plan": False,
    "format": "table",
    "reference": "",
    "insight": False,
    "output_dir": "outputs",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    typed = command_line.raw_arguments(arguments, KEYS, "runs")
    options = DEFAULTS | typed
    where = [text for text in str(options["where"]).split(",") if text]
    if not options["runs"]:
        raise SettingError(
            Fault("runs", "missing", "Give run directories or a folder that holds some, such as outputs.")
        )
    references = [name for name in str(options["reference"]).split(",") if name]
    if unknown := [name for name in references if name not in REFERENCES]:
        legal = ", ".join(REFERENCES)
        message = f"reference={unknown[0]} is unknown.{suggestion(unknown[0], REFERENCES)} It takes {legal}."
        raise SettingError(Fault("reference", "unknown", message))
    if wrong := [text for text in where if "=" not in text]:
        raise SettingError(Fault("where", "type", f"where takes KEY=VALUE, such as where=data=imdb, got {wrong[0]}."))

    if "report" in options and Path(options["report"]).suffix.lower() not in PAGES:
        name = Path(options["report"]).with_suffix(PAGES[0])
        message = (
            f"report={options['report']}: a report is an HTML page, so its name ends in .html; type report={name}."
        )
        raise SettingError(Fault("report", "unsupported", message))
    if options["write_plan"]:
        _write_plan(options)
        return
    if "plan" in options:
        from sentattn.compare.plan import apply, read_plan

        plan = read_plan(Path(options["plan"]))
        if given := [key for key in ("split", "margin") if key in typed and typed[key] != plan.content[key]]:
            message = f"{given[0]}={typed[given[0]]}: the plan has {given[0]}={plan.content[given[0]]}. Leave it out."
            raise SettingError(Fault(given[0], "conflict", message))
        options |= {key: plan.content[key] for key in ("split", "margin")}
    if "to" in options:
        if options.get("split", "test") not in SPLITS:
            message = f"to={options['to']} shows split=test or split=val, which W&B has, not {options['split']}."
            raise SettingError(Fault("to", "conflict", message))
        from sentattn.loggers.dashboard import require_package

        require_package()

    from sentattn.compare.insight_table import lines as insight_lines
    from sentattn.compare.leaderboard import leaderboard
    from sentattn.compare.runs import comparisons
    from sentattn.compare.summary import comparison_lines, verdict_lines

    paths = [Path(text) for text in options["runs"]]
    if "to" in options and _studies(paths) == paths:
        _publish(paths, [], options)
        return
    found, faults = comparisons(paths, split=options.get("split") or _default_split(paths), where=where)
    if references:
        from sentattn.compare.references import add_references

        found = [add_references(references, comparison, Path(options["output_dir"])) for comparison in found]
    for fault in faults:
        print(f"warning: {fault}", file=sys.stderr)
    if "plan" in options:
        found = [apply(plan, found)]
    if len(found) > 1:
        print("These runs have different rows; each table below is about runs with the same rows.\n")
    style, margin, family = options["format"], options["margin"], options["pairs"]
    parts = [(comparison, leaderboard(comparison)) for comparison in found]
    boards, texts, insights = [], [], []
    for comparison, entries in parts:
        insights.append(_insights(comparison, options["insight"]))
        diagnostics = insight_lines(insights[-1], style, rows=len(comparison.rows.labels_N))
        board, sentences = comparison_lines(comparison, entries, style=style, margin=margin, family=family)
        boards.append("\n".join([*board, *diagnostics]))
        texts.append("\n\n".join(filter(None, [boards[-1], "\n".join(sentences)])))
    print("\n\n".join(texts))
    if "output" in options:
        _write(Path(options["output"]), boards)
        if style == "csv":
            file = Path(options["output"])
            tests = [verdict_lines(one, margin=margin, family=family) for one in found]
            _write(file.with_name(f"{file.stem}-tests{file.suffix}"), ["\n".join(one) for one in tests])
    if report := options.get("report") or _report_of_run(options["runs"]):
        from sentattn.compare.report.page import write_report

        for warning in write_report(Path(report), parts, insights, margin=margin, family=family):
            print(f"warning: {warning}", file=sys.stderr)
        print(f"\nreport: {report}")
    if "to" in options:
        print()
        _publish(paths, parts, options)


def _write_plan(options: Any) -> None:
    """Writes a plan, and prints it."""
    from sentattn.compare.plan import write_plan

    if "plan" not in options:
        raise SettingError(Fault("plan", "missing", "write_plan=true needs a file to write: plan=FILE.yaml."))
    path, paths = Path(options["plan"]), [Path(text) for text in options["runs"]]
    plan, faults = write_plan(path, paths, split=options.get("split", "test"), margin=options["margin"])
    for fault in faults:
        print(f"warning: {fault}", file=sys.stderr)
    print("\n".join([*plan.lines, "", f"plan: {path} (SHA-256 {plan.digest}); edit it before you look at results."]))


def _default_split(paths: Sequence[Path]) -> str:
    """Returns `val` for run directories of which none was tested, else `test`."""
    from sentattn.run import CONFIG, Run

    try:
        is_untested = not any("test/accuracy" in Run(path).metrics for path in paths)
    except (RunError, KeyError, TypeError):  # a folder, or a run that is reported as damaged
        return "test"
    return "val" if is_untested and all((path / CONFIG).is_file() for path in paths) else "test"


def _report_of_run(runs: Sequence[str]) -> Path | None:
    """Returns where the report of a single run directory is written; None where something else was given."""
    from sentattn.run import CONFIG

    return Path(runs[0], "report.html") if len(runs) == 1 and Path(runs[0], CONFIG).is_file() else None


def _insights(comparison: Any, wanted: Any) -> Any:
    """Returns the attentions' diagnostics, none where they are not wanted."""
    if not wanted:
        return []
    from sentattn.compare import insight

    rows = {"True": insight.ROWS, "all": None}.get(str(wanted), wanted)
    found, faults = insight.insights(comparison, rows)
    for fault in faults:
        print(f"warning: {fault}", file=sys.stderr)
    return found


def _studies(paths: Sequence[Path]) -> list[Path]:
    """Returns the folders of studies among those that were typed."""
    from sentattn.run import TRIALS

    return [path for path in paths if (path / TRIALS).is_file()]


def _publish(paths: Sequence[Path], parts: Any, options: Any) -> None:
    """Publishes the dashboard of comparisons and studies, and prints what was done."""
    from sentattn.compare.dashboard import publish
    from sentattn.loggers.dashboard import FILE

    margin, family = options["margin"], options["pairs"]
    for line in publish(paths[0] / FILE, parts, _studies(paths), margin=margin, family=family):
        print(line, flush=True)


def _write(path: Path, boards: Sequence[str]) -> None:
    from sentattn.run import write_atomically

    try:
        write_atomically(path, "\n\n".join(boards) + "\n")
    except OSError as error:
        message = f"output={path} cannot be written: {error.strerror}."
        raise RunError(Fault("output", "unwritable", message)) from error


if __name__ == "__main__":
    sys.exit(main())
