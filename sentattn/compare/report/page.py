"""`report.html`: a comparison, or a single run, as one page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sentattn.compare import insight_table, leaderboard
from sentattn.compare.insight import Insight
from sentattn.compare.leaderboard import Entry
from sentattn.compare.pairs import messages
from sentattn.compare.report import prediction_charts, setting_charts
from sentattn.compare.report.examples import Example, disagreements, examples, worst_errors
from sentattn.compare.report.insight_charts import curve_charts
from sentattn.compare.report.slices import CONTRAST, NEGATION, by_class, by_length, by_stars, by_words
from sentattn.compare.report.style import MAX_DRAWN, Chart, Table, key
from sentattn.compare.report.summaries import class_names
from sentattn.compare.runs import Comparison
from sentattn.compare.summary import Family
from sentattn.compare.texts import evaluated_texts
from sentattn.errors import Fault, RunError, UserError
from sentattn.metrics import majority_share
from sentattn.rendering.charts import draw, plotly_script
from sentattn.rendering.html import render

REPORT = "report.html"
WORDS = {"negation": NEGATION, "contrast": CONTRAST}


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        heading: What it shows.
        charts: Its charts.
        tables: Tables that are shown with them.
        note: How to read it.
        has_key: Whether its charts have the colours of settings.
    """

    heading: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    note: str = ""
    has_key: bool = True


@dataclass
class Part:
    """What a page says about the settings with the same rows."""

    title: str
    subtitle: str
    blocks: Sequence[tuple[str, Sequence[str]]]
    key: Sequence[tuple[int, str, str]]
    sections: list[Section]
    examples_heading: str = ""
    examples: Sequence[Example] = ()
    warnings: list[str] = field(default_factory=list)


def write_report(
    path: Path,
    parts: Sequence[tuple[Comparison, Sequence[Entry]]],
    insights: Sequence[Sequence[Insight]],
    *,
    margin: float,
    family: Family,
) -> list[str]:
    """Writes the page of comparisons with their leaderboards and diagnostics; returns what could not be shown.

    Raises:
        RunError: If it cannot be written.
    """
    from sentattn.run import write_atomically

    shown = [
        part(comparison, entries, margin=margin, family=family, insight=insight_sections(found, entries))
        for (comparison, entries), found in zip(parts, insights, strict=True)
    ]
    try:
        write_atomically(path, page(shown))
    except OSError as error:
        message = f"report={path} cannot be written: {error.strerror or error}."
        raise RunError(Fault("report", "unwritable", message)) from error
    return [warning for one in shown for warning in one.warnings]


def insight_sections(insights: Sequence[Insight], entries: Sequence[Entry]) -> list[Section]:
    """Returns what a page says of attentions: the conclusion above their tables, and curves."""
    sections = []
    for (title, *names), rows, note in insight_table.tables(insights):
        heading, table = title[0].upper() + title[1:], Table(["settings", *names], rows, title, note)
        sections.append(Section(heading, tables=[table], note=INSIGHT_NOTE))
    if sections:
        sections.insert(0, Section("Does the attention mean anything?", note=insight_table.conclusion(insights)))
        sections.append(Section("By share of the tokens", curve_charts(insights, entries), note=CURVE_NOTE))
    return sections


def page(parts: Sequence[Part]) -> str:
    """Returns the page, with plotly's script in it once."""
    return render("sentattn.compare.report", REPORT, parts=parts, draw=draw, plotly=plotly_script())


def part(
    comparison: Comparison,
    entries: Sequence[Entry],
    *,
    margin: float = 0.5,
    family: Family = "declared",
    insight: Sequence[Section] = (),
) -> Part:
    """Collects what a page says about settings with the same rows.

    Args:
        comparison: The settings.
        entries: Their leaderboard.
        margin: Points of accuracy within which two settings count as equivalent.
        family: `declared` pairs, or `all`.
        insight: Further sections, shown below the leaderboard.
    """
    rows, names = comparison.rows, class_names(comparison)
    [first, *others] = entries
    is_run = not others and len(first.setting.runs) == 1
    groups = "" if rows.group_N is None else f" in {rows.group_N.max() + 1:,} groups"
    where = f"{comparison.data}, split {comparison.split}: {len(rows.labels_N):,} rows{groups}"
    result = Part(
        title=first.setting.name if is_run else f"{len(entries)} settings on {comparison.data}",
        subtitle=f"{where}. {first.setting.runs[0].run.path}" if is_run else f"{where}. Means over seeds.",
        blocks=[] if is_run else messages(comparison, margin=margin, explore=family == "all"),
        key=key(entries) if others else [],
        sections=[_metrics(first) if is_run else _leaderboard(entries, majority_share(comparison.rows.labels_N))],
    )
    add = result.sections.append
    add(Section("Accuracy against cost", setting_charts.cost_charts(entries), note=COST_NOTE))
    result.sections += insight
    slices = [("tokens", by_length(rows.lengths_N), True)]
    slices.append(("class", by_class(rows.labels_N, names), comparison.ordered))
    choices = disagreements(entries) if others else worst_errors(entries, rows.labels_N)
    result.examples_heading = "Disagreements" if others else "Worst errors"
    try:
        data, texts = evaluated_texts(comparison)
        stars_N = data.stars(comparison.split)
        all_texts = [texts.texts(row) for row in range(len(texts))]
        slices += [("stars", by_stars(stars_N), True)] if stars_N is not None else []
        slices += [(title, by_words(all_texts, words), True) for title, words in WORDS.items()]
        result.examples, result.warnings = examples(choices, entries, texts, rows.labels_N, names)
    except UserError as error:
        result.warnings = [f"The report has no slices by words and no texts: {error}"]
    charts = [
        chart
        for title, found, is_ordered in slices
        for chart in prediction_charts.slice_chart(title, found, entries, rows.group_N, is_ordered=is_ordered)
    ]
    add(Section("Accuracy by kind of text", charts, note=SLICE_NOTE))
    add(Section("Reliability", prediction_charts.reliability_chart(entries, rows.labels_N), note=RELIABILITY_NOTE))
    add(Section("Hops", setting_charts.hop_chart(entries), has_key=False))
    add(Section("Learning curves", setting_charts.curve_charts(entries)))
    matrices = prediction_charts.confusion_charts(entries, rows.labels_N, names)
    values = [] if others else [prediction_charts.class_table(entries, rows.labels_N, names)]
    heading = "Confusion matrices" if others else "Confusion matrix"
    add(Section(heading, matrices, values, note="Shares of the rows of each true class.", has_key=False))
    result.sections = [one for one in result.sections if one.charts or one.tables or one in insight]
    if comparison.plan is not None:
        result.blocks = [*result.blocks, (comparison.plan.title, comparison.plan.lines)]
    return result


def _leaderboard(entries: Sequence[Entry], majority: float) -> Section:
    heading, *rows = leaderboard.cells(entries)
    *_, largest = leaderboard.cells(entries, majority=majority)
    table = Table(
        ["rank", *(name.replace("_", " ") for name in heading)],
        [*([str(rank), *row] for rank, row in enumerate(rows, start=1)), ["", *largest]],
    )
    about = leaderboard.notes(entries)
    if len(rows) > MAX_DRAWN:
        about.append(
            f"The charts below draw the best {MAX_DRAWN} settings, those of cost and hops all; the tables all."
        )
    return Section("Leaderboard", setting_charts.leaderboard_chart(entries), [table], " ".join(about), has_key=False)


def _metrics(entry: Entry) -> Section:
    rows = []
    for name, one in entry.metrics.items():
        interval = "" if np.isnan(one.error) else "{:.4f} to {:.4f}".format(*one.interval())
        rows.append([name.replace("_", " "), f"{one.value:.4f}", interval])
    rows.append(["parameters", f"{entry.parameters:,}", ""])
    rows.append(["seconds of training", f"{entry.cost('seconds', 'train'):,.0f}", ""])
    about = leaderboard.notes([entry])
    if not entry.setting.deterministic:
        about.append("About other rows, not about another seed: train more with seeds=3.")
    return Section("Metrics", tables=[Table(["metric", "value", "95% interval over rows"], rows, note=" ".join(about))])


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
