"""`report.html`: a comparison, or a single run, as one page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sentattn.compare import insight_table, leaderboard
from sentattn.compare.comparison import Comparison
from sentattn.compare.report import charts
from sentattn.compare.report.charts import MAX_DRAWN, Chart, Table, key
from sentattn.compare.report.examples import Example, disagreements, examples, worst_errors
from sentattn.compare.report.summaries import (
    CONTRAST,
    NEGATION,
    by_class,
    by_length,
    by_stars,
    by_words,
    class_names,
)
from sentattn.compare.settings import Setting
from sentattn.errors import Fault, RunError, UserError
from sentattn.rendering.html import draw, plotly_script, render
from sentattn.run import write_atomically

REPORT = "report.html"
WORDS = {"negation": NEGATION, "contrast": CONTRAST}


class Section(NamedTuple):
    """A section of a page: charts, tables, and how to read them.

    Attributes:
        has_key: Whether its charts have the colours of settings.
        is_text: Whether it is shown without charts and tables.
    """

    heading: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    note: str = ""
    has_key: bool = True
    is_text: bool = False


@dataclass
class Part:
    """The part of a page about the settings with the same rows."""

    title: str
    subtitle: str
    blocks: Sequence[tuple[str, Sequence[str]]]
    key: Sequence[tuple[int, str, str]]
    sections: list[Section]
    examples_heading: str = ""
    examples: Sequence[Example] = ()
    warnings: list[str] = field(default_factory=list)


def write_report(path: Path, comparisons: Sequence[Comparison]) -> list[str]:
    """Writes the page of comparisons; returns a warning for each part that could not be shown.

    Raises:
        RunError: If it cannot be written.
    """
    parts = [part(comparison) for comparison in comparisons]
    try:
        write_atomically(path, page(parts))
    except OSError as error:
        raise RunError(Fault("report", "unwritable", f"report={path} cannot be written: {error.strerror}.")) from error
    return [warning for part in parts for warning in part.warnings]


def page(parts: Sequence[Part]) -> str:
    """Returns the page, with plotly's script in it once."""
    return render("sentattn.compare.report", REPORT, parts=parts, draw=draw, plotly=plotly_script())


def part(comparison: Comparison) -> Part:
    """Returns the part of a page about a comparison."""
    names, ranked = class_names(comparison), comparison.leaderboard
    first, is_single = ranked[0], len(ranked) == 1
    is_run = is_single and len(first.runs) == 1
    where = f"{comparison.data}, split {comparison.split}: {comparison.counts}"
    choices = worst_errors(ranked, comparison.rows.labels_N) if is_single else disagreements(ranked)
    result = Part(
        title=first.name if is_run else f"{len(ranked)} settings on {comparison.data}",
        subtitle=f"{where}. {first.runs[0].path}" if is_run else f"{where}. Means over seeds.",
        blocks=[] if is_run else list(comparison.messages),
        key=[] if is_single else key(ranked),
        sections=[],
        examples_heading="Worst errors" if is_single else "Disagreements",
    )
    slices = [
        ("tokens", by_length(comparison.rows.lengths_N), True),
        ("class", by_class(comparison.rows.labels_N, names), comparison.ordered),
    ]
    try:
        data, texts = comparison.read_texts()
        stars_N = data.stars(comparison.split)
        all_texts = [texts.texts(row) for row in range(len(texts))]
        slices += [("stars", by_stars(stars_N), True)] if stars_N is not None else []
        slices += [(title, by_words(all_texts, words), True) for title, words in WORDS.items()]
        result.examples, result.warnings = examples(choices, ranked, texts, comparison.rows.labels_N, names)
    except UserError as error:
        result.warnings = [f"The report has no slices by words and no texts: {error}"]
    slice_charts = [
        chart
        for title, of_title, is_ordered in slices
        for chart in charts.slice_chart(title, of_title, ranked, is_ordered=is_ordered)
    ]
    sections = [
        _metrics(first) if is_run else _leaderboard(comparison),
        Section("Accuracy against cost", charts.cost_charts(ranked), note=COST_NOTE),
        *_insight(comparison),
        Section("Accuracy by kind of text", slice_charts, note=SLICE_NOTE),
        Section("Reliability", charts.reliability_chart(ranked), note=RELIABILITY_NOTE),
        Section("Hops", charts.hop_chart(ranked), has_key=False),
        Section("Learning curves", charts.learning_charts(ranked)),
        Section(
            "Confusion matrix" if is_single else "Confusion matrices",
            charts.confusion_charts(ranked, names),
            [charts.class_table(first, names)] if is_single else [],
            note="Shares of the rows of each true class.",
            has_key=False,
        ),
    ]
    result.sections = [section for section in sections if section.charts or section.tables or section.is_text]
    if comparison.plan is not None:
        result.blocks = [*result.blocks, (comparison.plan.title, comparison.plan.lines)]
    return result


def _leaderboard(comparison: Comparison) -> Section:
    heading, *rows, largest = leaderboard.cells(comparison)
    table = Table(
        ["rank", *(name.replace("_", " ") for name in heading)],
        [*([str(rank), *row] for rank, row in enumerate(rows, start=1)), ["", *largest]],
    )
    remarks = leaderboard.notes(comparison.leaderboard)
    if len(rows) > MAX_DRAWN:
        remarks.append(f"Charts draw the best {MAX_DRAWN} settings, those of cost and hops all; the tables have all.")
    chart = charts.leaderboard_chart(comparison.leaderboard)
    return Section("Leaderboard", chart, [table], " ".join(remarks), has_key=False)


def _metrics(setting: Setting) -> Section:
    rows = []
    for name, estimate in setting.metrics.items():
        interval = "" if np.isnan(estimate.error) else "{:.4f} to {:.4f}".format(*estimate.interval())
        rows.append([name.replace("_", " "), f"{estimate.value:.4f}", interval])
    rows.append(["parameters", f"{setting.parameters:,}", ""])
    rows.append(["seconds of training", f"{setting.cost('seconds.train'):,.0f}", ""])
    remarks = leaderboard.notes([setting])
    if not setting.deterministic:
        remarks.append("About other rows, not about another seed: train more with seeds=3.")
    return Section("Metrics", tables=[Table(["metric", "value", "95% interval over rows"], rows, " ".join(remarks))])


def _insight(comparison: Comparison) -> list[Section]:
    """Returns the sections about attentions: the conclusion above their tables, and curves."""
    tables = insight_table.tables(comparison.insights)
    if not tables:
        return []
    conclusion = insight_table.conclusion(comparison.insights)
    curves = charts.faithfulness_charts(comparison.insights, comparison.leaderboard)
    sections = [Section("Does the attention mean anything?", note=conclusion, is_text=True)]
    for (title, *names), rows, note in tables:
        table = Table(["settings", *names], rows, note)
        sections.append(Section(title[0].upper() + title[1:], tables=[table], note=INSIGHT_NOTE))
    return [*sections, Section("By share of the tokens", curves, note=CURVE_NOTE)]


INSIGHT_NOTE = f"Means over rows and seeds, {insight_table.INTERVALS}."
CURVE_NOTE = (
    "By how much more the probability of the predicted class falls with the first tokens of the attention's ranking "
    "deleted (comprehensiveness), or with these tokens only (sufficiency), than with as many random tokens. The "
    "numbers have the other rankings too."
)
COST_NOTE = "Filled points are on the Pareto front: no other setting is as cheap and as good."
SLICE_NOTE = (
    "With 95% intervals over rows and seeds; of a setting with one seed over rows alone. Negation: texts with not, no, "
    "never, n't and the like; contrast: with but, however, although and the like."
)
RELIABILITY_NOTE = (
    "15 bins of equally many rows. Below the dotted line the model is surer than it is right, above it less sure."
)
