"""`report.html`: a comparison, or a single run, as one page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sentattn.compare import insight, leaderboard
from sentattn.compare.across import Overall
from sentattn.compare.comparison import Comparison
from sentattn.compare.pairs import Plan
from sentattn.compare.report import charts
from sentattn.compare.report.charts import MAX_DRAWN, Chart
from sentattn.compare.report.summaries import (
    CONTRAST,
    NEGATION,
    Example,
    by_length,
    by_value,
    curves,
    disagreements,
    examples,
    worst_errors,
)
from sentattn.compare.runs import Setting
from sentattn.console import Table
from sentattn.errors import UserError
from sentattn.rendering.html import draw, plotly_script, render, shaded_pieces
from sentattn.run import REPORT_FILE, write_atomically, writing

FIRST_COLUMNS = ("accuracy", "log_loss", "parameters", "train_seconds")
"""Columns of the leaderboard that are shown next to the names of the settings and the metric; a click shows all."""


class Section(NamedTuple):
    """A section of a page: charts, tables, and how to read them.

    Attributes:
        more: A table that is shown on request.
        has_key: Whether its charts have the colours of settings.
    """

    heading: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    note: str = ""
    more: Table | None = None
    has_key: bool = True


@dataclass
class Part:
    """The part of a page about the settings with the same rows."""

    title: str
    subtitle: str
    blocks: Sequence[tuple[str, Sequence[str]]]
    key: Sequence[tuple[int, str, str]]
    sections: list[Section]
    plan: Plan | None = None
    examples_heading: str = ""
    examples: Sequence[Example] = ()
    warnings: Sequence[str] = ()


def write_report(path: Path, comparisons: Sequence[Comparison], overall: Sequence[Overall] = ()) -> list[str]:
    """Writes the page of comparisons; returns a warning for each part that could not be shown."""
    parts = [*([over_data_sets(overall)] if overall else []), *map(part, comparisons)]
    with writing(path, "report"):
        write_atomically(path, page(parts))
    return [warning for part in parts for warning in part.warnings]


def page(parts: Sequence[Part]) -> str:
    """Returns the page, with plotly's script in it once."""
    functions = {"draw": draw, "shaded": shaded_pieces}
    return render("sentattn.compare.report", REPORT_FILE, parts=parts, plotly=plotly_script(), **functions)


def over_data_sets(overall: Sequence[Overall]) -> Part:
    """Returns the part of a page about the verdicts over data sets."""
    sections = []
    for each in overall:
        heading, *rows = each.rows()
        title = f"{each.mean.first.name} \u2212 {each.mean.second.name}"
        sections.append(Section(title, charts.forest_chart(each), [Table(heading, rows)], has_key=False))
    names = ", ".join(dict.fromkeys(name for each in overall for name in each.by_data))
    blocks = [("Mean differences, not weighted:", [each.message for each in overall])]
    return Part("Over data sets", f"{names}. By {overall[0].metric.name}.", blocks, [], sections)


def part(comparison: Comparison) -> Part:
    """Returns the part of a page about a comparison."""
    names, ranked, rows = comparison.labels, comparison.leaderboard, comparison.rows
    first, is_single = ranked[0], len(ranked) == 1
    is_run, metric = (
        is_single and len(first.runs) == 1 and not first.runs[0].is_of_table and not comparison.folds,
        comparison.metric.name.capitalize(),
    )
    choices = worst_errors(ranked, rows.labels_N) if is_single else disagreements(ranked)
    slices: list[charts.Slices] = [
        ("tokens", by_length(rows.lengths_N) if rows.lengths_N.size else {}, True),
        ("class", by_value(rows.labels_N, dict(enumerate(names))), comparison.ordered),
    ]
    shown: Sequence[Example] = ()
    try:
        data, texts = comparison.read_texts()
        if (stars_N := data.stars(comparison.split)) is not None:
            slices.append(("stars", by_value(stars_N, {stars: f"{stars}" for stars in np.unique(stars_N)}), True))
        for title, words in (("negation", NEGATION), ("contrast", CONTRAST)):
            has_N = np.array([words.search(texts.texts(row)) is not None for row in range(len(texts))])
            slices.append((title, by_value(has_N, {False: "without", True: "with"}), True))
        shown, warnings = examples(choices, ranked, comparison.split, texts, rows.labels_N, names)
    except UserError as error:
        warnings = [f"The report has no slices by words and no texts: {error}"]
    confusions = charts.confusion_charts(ranked, names)
    by_rows = charts.curve_chart(curves(ranked))
    shares = f"Shares of the rows of each true class{'' if is_single else ', of the best four settings'}."
    sections = [
        _metrics(first) if is_run else _leaderboard(comparison),
        *_with_charts(Section(f"{metric} against cost", charts.cost_charts(ranked), note=COST_NOTE)),
        *_with_charts(Section(f"{metric} against labels", by_rows, note=LABEL_NOTE, has_key=False)),
        *_insight(comparison),
        *_with_charts(
            Section(
                "Accuracy by kind of text",
                [] if comparison.folds else charts.slice_charts(slices, ranked),
                note=SLICE_NOTE,
            ),
            Section(
                "Reliability",
                charts.reliability_chart([s for s in ranked if s.has_probabilities]),
                note=RELIABILITY_NOTE,
            ),
            Section("Learning curves", charts.learning_charts(ranked), note=TRAINING_NOTE if is_run else ""),
            Section("Confusion matrix" if is_single else "Confusion matrices", confusions, note=shares, has_key=False),
        ),
    ]
    where = f"{comparison.title}: {comparison.counts}"
    return Part(
        title=first.name if is_run else f"{len(ranked)} settings on {comparison.data}",
        subtitle=f"{where}. {first.runs[0].path}" if is_run else f"{where}. Means over seeds.",
        blocks=[] if is_run else comparison.messages,
        plan=comparison.plan,
        key=[] if is_single else charts.key(ranked),
        sections=sections,
        examples_heading="Worst errors" if is_single else "Disagreements",
        examples=shown,
        warnings=warnings,
    )


def _with_charts(*sections: Section) -> list[Section]:
    """Returns the sections that have a chart."""
    return [section for section in sections if section.charts]


def _leaderboard(comparison: Comparison) -> Section:
    remarks = leaderboard.notes(comparison.leaderboard)
    if len(comparison.leaderboard) > MAX_DRAWN:
        remarks.append(f"Charts draw the best {MAX_DRAWN} settings, those of cost all; the tables have all.")
    chart = charts.leaderboard_chart(comparison.leaderboard)
    every = _board(comparison)
    columns = dict.fromkeys(
        [comparison.metric.name, *(name for name in FIRST_COLUMNS if name.replace("_", " ") in every.heading)]
    )
    first = _board(comparison, list(columns))
    return Section("Leaderboard", chart, [first], " ".join(remarks), every, has_key=False)


def _board(comparison: Comparison, columns: Sequence[str] = ()) -> Table:
    """Returns the leaderboard with some columns or all, and the place of each setting next to its name."""
    heading, *rows = leaderboard.ranked(leaderboard.cells(comparison, columns))
    return Table([name.replace("_", " ") for name in heading], rows)


def _metrics(setting: Setting) -> Section:
    rows = []
    for name, estimate in setting.metrics.items():
        interval = "" if not estimate.error > 0 else "{:.4f} to {:.4f}".format(*estimate.interval())
        rows.append([name.replace("_", " "), f"{estimate.value:.4f}", interval])
    rows.append(["parameters", f"{setting.parameters:,}", ""])
    rows.append(["seconds of training", f"{setting.cost('seconds.train'):,.0f}", ""])
    remarks = leaderboard.notes([setting])
    if not setting.deterministic:
        remarks.append("About other rows, not about another seed: train more with seeds=3.")
    return Section("Metrics", tables=[Table(["metric", "value", "95% interval over rows"], rows, " ".join(remarks))])


def _insight(comparison: Comparison) -> list[Section]:
    """Returns the section about attentions, if they were diagnosed: the conclusion above their table."""
    if not (found := comparison.insights):
        return []
    return [Section("Does the attention mean anything?", (), [insight.table(found)], insight.conclusion(found))]


TRAINING_NOTE = "Training: of the passes that trained, with dropout, smoothed labels and class weights."
COST_NOTE = "Filled points are on the Pareto front: no other setting is as cheap and as good."
LABEL_NOTE = "Settings that differ in data.train_size alone; where data.train_seed differs, intervals are over draws."
SLICE_NOTE = (
    "With 95% intervals over rows and seeds; of a setting with one seed over rows alone. Negation: texts with not, no, "
    "never, n't and the like; contrast: with but, however, although and the like. The best four settings are drawn."
)
RELIABILITY_NOTE = (
    "15 bins of equally many rows. Below the dotted line the model is surer than it is right, above it less sure."
)
