"""Diagnostics of the attention of compared runs: computed once, kept with each run, and shown as one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from sentattn.compare.runs import EvaluatedRun, Setting, text_runs
from sentattn.compare.statistics import LEVEL, UNKNOWN_TERM, Estimate, adjusted, blocks, jackknife, seed_term
from sentattn.console import Progress, Table, markdown_lines, table_lines, wrap
from sentattn.errors import Fault, UserError, require_packages
from sentattn.insight.diagnostics import Diagnostics, diagnose, rank_correlation, ranks, sample
from sentattn.metrics import Floats, Ints
from sentattn.training.environment import keep_freed_memory

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

FILE = "insight-{split}-{rows}.parquet"
"""The file of a run with the diagnostics of a sample."""
ROWS = 200
"""Rows of a sample: a mean fall of the probability is then known to about 0.02. A text costs hundreds of passes."""
SMALLEST_FALL = 0.01
"""Of a probability: what is less counts as none in the conclusion, with any interval."""
MOST_DIGITS = 5
FIRST_COLUMNS = 8
"""Columns of a terminal of 80, next to the settings; the others are below them."""


class Column(NamedTuple):
    """A measure of a text, or its difference from another one of the same text; without a measure that of two seeds."""

    name: str
    heading: str
    measure: str
    less: str = ""
    digits: int = 3
    bounds: tuple[float, float] = (-1.0, 1.0)


COLUMNS = (
    Column("tokens", "tokens", "tokens", digits=1, bounds=(1.0, math.inf)),
    Column("hop_overlap", "overlap", "hop_overlap", digits=2, bounds=(0.0, 1.0)),
    *(
        Column(f"{kind}_{ranking}", f"{kind[0].upper()} {heading}", f"{kind}_{ranking}", less and f"{kind}_{less}")
        for kind in ("comprehensiveness", "sufficiency")
        for ranking, heading, less in (
            ("attention", "attn", "random"),
            ("gradients", "grad", "random"),
            ("random", "rand", ""),
        )
    ),
    Column("even_weights", "even", "correct_even", "correct"),
    Column("permuted_weights", "permuted", "correct_permuted", "correct"),
    Column("random_weights", "random", "correct_random", "correct"),
    Column("seed_agreement", "seeds", "", digits=2),
    Column("average_precision", "AP", "average_precision", "average_precision_random", digits=2),
)
"""The columns of the table."""
FAITHFULNESS = next(column for column in COLUMNS if column.name == "comprehensiveness_attention")
"""The column of the conclusion."""
ABOUT = (
    "tokens: how many tokens the weights reach, exp of their entropy. overlap: how much the hops read the same tokens, "
    "0 none, 1 equal. C, comprehensiveness: how far the probability of the predicted class falls without the first 1, "
    "5, 10, 20 and 50% of the tokens, the mean of the five; S, sufficiency: with these tokens alone, so lower is "
    "better. C rand, S rand: for tokens at random; attn, grad: how much more for those ranked by attention, and by the "
    "magnitude of integrated gradients. even, permuted, random: change of the accuracy with even weights, with the "
    "attention's own permuted over the text, and with those of shuffled scoring parameters; where it is small, the "
    "trained model does not need its weights. seeds: Kendall's tau between the attention of two seeds. AP: average "
    "precision of the weights against the words that decide the label, less that of random weights: whether a person "
    "would find them plausible, not whether the model uses these words. The state of a token may hold what its "
    "neighbours say. Weights over n-grams are not measured. Differences are paired, text by text; ± is half of a 95% "
    "interval over rows and seeds."
)

OUTCOMES = {
    "more": "falls more than without random ones with {}",
    "as much": "does not fall measurably more than without random ones with {}",
    "less": "falls less than without random ones with {}",
    "unknown": "falls by a difference without an interval with {}",
}
"""The conclusions about attentions."""


@dataclass(frozen=True)
class Insight:
    """The diagnostics of a setting's attention, for each seed.

    `block_N` numbers the blocks of texts for the jackknife; the texts of a group are in one block.
    """

    setting: Setting
    seeds: Sequence[Diagnostics]
    block_N: Ints

    def estimate(self, column: Column) -> Estimate:
        """Returns the mean over seeds and over the texts to which a column applies, with its error.

        The error from texts is a jackknife over their blocks, and that from seeds comes from the spread of their
        values. A value of NaN does not apply; an error of NaN is unknown, since the setting has too few seeds. That of
        the agreement of seeds is a jackknife over seeds, as the pairs of a seed are not independent.
        """
        if not column.measure:
            pairs = list(combinations(range(len(self.seeds)), 2))
            weights = [seed.weights for seed in self.seeds]
            values = [np.array(list(map(rank_correlation, weights[first], weights[second]))) for first, second in pairs]
        else:
            values = [seed.values[column.measure] for seed in self.seeds]
            if column.less:
                values = [value_N - seed.values[column.less] for value_N, seed in zip(values, self.seeds, strict=True)]
        if not values:
            return Estimate(math.nan, [UNKNOWN_TERM])
        means_SK = np.stack([_means(value_N, self.block_N) for value_N in values])  # a row for each seed, or pair
        value, *without_K = means_SK.mean(axis=0)
        terms = [jackknife(value, np.array(without_K))]
        if not column.measure and len(self.seeds) > 2:
            without_S = [means_SK[[seed not in pair for pair in pairs], 0].mean() for seed in range(len(self.seeds))]
            terms.append(jackknife(value, np.array(without_S)))
        elif column.measure and len(self.seeds) > 1:
            terms.append(seed_term(means_SK[:, 0]))
        is_known = self.setting.has_seeds and (column.measure or len(self.seeds) > 2)
        if not is_known or math.isnan(terms[0].variance):
            terms = [UNKNOWN_TERM]
        return Estimate(float(value), terms, column.bounds)


def _means(values_N: Floats, block_N: Ints) -> Floats:
    """The means over all texts to which a measure applies, and over those outside each block; NaN over none."""
    applies_N = ~np.isnan(values_N)
    sums_K = np.bincount(block_N, weights=np.where(applies_N, values_N, 0))
    counts_K = np.bincount(block_N, weights=applies_N)
    sums, counts = (np.concatenate([[of_K.sum()], of_K.sum() - of_K]) for of_K in (sums_K, counts_K))
    means: Floats = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def insights(settings: Sequence[Setting], split: str, size: int | None = ROWS) -> tuple[list[Insight], list[Fault]]:
    """Diagnoses the attentions of settings, each on the same sample of their rows; with `size=None` on all.

    Settings without a model of this package are left out. Returns the diagnostics, and an error for each setting that
    cannot be diagnosed; a `SettingError` if Captum or scikit-learn is missing.
    """
    require_packages("insight", "insight=", ("captum", "sklearn"), "sentattn[insight]")
    torch.set_flush_denormal(True)  # gradients over a long text end as denormal numbers, which are slow
    keep_freed_memory()
    result: list[Insight] = []
    faults: list[Fault] = []
    rows = settings[0].rows
    indices, group_N = sample(len(rows.labels_N), size), rows.group_N
    block_N = blocks(len(indices), None if group_N is None else np.unique(group_N[indices], return_inverse=True)[1])
    data = cache(lambda: text_runs(settings)[0].read_data(split))  # only if some diagnostics are not stored
    with Progress() as progress:
        for setting in settings:
            if "attention" in setting.settings["model"]:
                try:
                    seeds = [_diagnose(run, data, indices, split, progress) for run in setting.runs]
                    result.append(Insight(setting, seeds, block_N))
                except UserError as error:
                    faults += error.faults
    return result, list(dict.fromkeys(faults))


def _diagnose(
    run: EvaluatedRun, data: Callable[[], TextData], indices: Ints, split: str, progress: Progress
) -> Diagnostics:
    """Returns the diagnostics of a run's attention, which are kept in its directory."""
    file = run.path / FILE.format(split=split, rows=len(indices))
    if (stored := Diagnostics.load(file)) is not None and len(stored.weights) == len(indices):
        return stored
    classifier, rows = run.open_model(split, data().split(split))
    encoded = classifier.tokenizer.encode([rows.texts(i) for i in indices])
    rationales = [rows.rationale(i) for i in indices]
    stage = partial(progress, f"insight of {run.path.parent.name}/{run.path.name}")
    found = diagnose(classifier.model, encoded, rows.labels[indices], rationales, stage)
    with suppress(OSError):  # in a directory that may not be written they are computed again the next time
        found.save(file)
    return found


def table(insights: Sequence[Insight]) -> Table:
    """Returns the columns that apply to any setting, a row for each setting, and how to read them."""
    found = [[insight.estimate(column) for column in COLUMNS] for insight in insights]
    shown = [i for i in range(len(COLUMNS)) if not all(math.isnan(row[i].value) for row in found)]
    rows = [
        [insight.setting.name, *(rounded(row[i], COLUMNS[i].digits) for i in shown)]
        for insight, row in zip(insights, found, strict=True)
    ]
    return Table(["settings", *(COLUMNS[i].heading for i in shown)], rows, ABOUT)


def lines(insights: Sequence[Insight], total: int, *, markdown: bool = False) -> list[str]:
    """Returns the table below what it says, of a sample of so many rows in total."""
    heading, rows, about = table(insights)
    count = len(insights[0].block_N)
    drawn = f"{count:,} of {total:,} rows" if count < total else f"all {total:,} rows"
    title = f"Does the attention mean anything? Means over {drawn} and over seeds."
    if markdown:
        return ["", title, "", conclusion(insights), "", *markdown_lines([heading, *rows]), "", about]
    shown = ["", *wrap(title), *wrap(conclusion(insights))]
    for columns in (slice(1, 1 + FIRST_COLUMNS), slice(1 + FIRST_COLUMNS, None)):
        broken = [
            [row[0], *(cell.replace(" ±", "\n±") for cell in row[columns])] for row in (heading, *rows) if row[columns]
        ]
        shown += ["", *table_lines(broken, align="<" + ">" * (len(broken[0]) - 1), wrap=0)] if broken else []
    return [*shown, "", *wrap(about)]


def csv_rows(insights: Iterable[tuple[str, str, Insight]]) -> list[list[str]]:
    """Returns a heading, and a row for each setting and column: the value and its interval, empty where unknown.

    Args:
        insights: Name of the data, split, and insight into a setting.
    """
    rows = [["data", "split", "settings", "seeds", "rows", "metric", "value", "low", "high"]]
    for data, split, insight in insights:
        start = [data, split, insight.setting.name, str(len(insight.seeds)), str(len(insight.block_N))]
        for column in COLUMNS:
            if not math.isnan((estimate := insight.estimate(column)).value):
                ends = ["", ""] if math.isnan(estimate.error) else [f"{end:.17g}" for end in estimate.interval()]
                rows.append([*start, column.name, f"{estimate.value:.17g}", *ends])
    return rows


def conclusion(insights: Sequence[Insight]) -> str:
    """Returns for which attentions the prediction depends on the tokens that they rank first.

    The tests of all attentions are one family.
    """
    estimates = {insight.setting.name: insight.estimate(FAITHFULNESS) for insight in insights}
    known = {name: estimate for name, estimate in estimates.items() if not math.isnan(estimate.error)}
    p_values = dict(zip(known, adjusted([test.p_difference() for test in known.values()]), strict=True))
    groups: dict[str, list[str]] = {}
    for name, estimate in estimates.items():
        if not math.isnan(value := estimate.value):
            is_sure = p_values.get(name, 1.0) < LEVEL and abs(value) >= SMALLEST_FALL
            outcome = ("more" if value > 0 else "less") if is_sure else "as much"
            groups.setdefault(outcome if name in known else "unknown", []).append(
                f"{name} ({rounded(estimate, FAITHFULNESS.digits)})"
            )
    clauses = [text.format(" and ".join(groups[outcome])) for outcome, text in OUTCOMES.items() if outcome in groups]
    weights = {
        insight.setting.name: [of_text for seed in insight.seeds for of_text in seed.weights] for insight in insights
    }
    if even := [name for name, of_setting in weights.items() if not any(map(ranks, of_setting))]:
        verb = "has" if len(even) == 1 else "have"
        clauses.append(f"{' and '.join(even)} {verb} even weights, which rank no token")
    start = "Without the tokens that an attention ranks first, the probability of the predicted class "
    return f"{start if groups else ''}{'; '.join(clauses)}."


def rounded(estimate: Estimate, digits: int) -> str:
    """Returns the value with half of its interval, and digits enough that this half is not 0."""
    if math.isnan(estimate.value):
        return "-"
    half = 0.0 if math.isnan(estimate.error) else estimate.half_width()
    if 0 < half < 0.5 * 10**-digits:
        digits = min(MOST_DIGITS, math.ceil(-math.log10(2 * half)))
    value = round(estimate.value, digits) + 0.0  # not -0
    return f"{value:.{digits}f}" + ("" if math.isnan(estimate.error) else f" ±{half:.{digits}f}")
