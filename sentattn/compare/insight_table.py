"""Tables of the diagnostics of a comparison, each with what it can say and what it cannot."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sentattn.compare.insight import FILE, Figure, Insight, Means
from sentattn.compare.leaderboard import Format, paper_lines
from sentattn.compare.statistics import Estimate
from sentattn.console import WIDTH, table_lines
from sentattn.insight.diagnostics import Diagnostics

SPLITS = ("val", "test")
ABSENT = "-"
"""Shown where a figure does not apply."""
INTERVALS = "with 95% intervals; one seed gives none"
"""What a heading says of the figures' intervals."""


@dataclass(frozen=True)
class Column:
    """A figure of a table.

    Attributes:
        name: Its name in Markdown, CSV and LaTeX.
        heading: Its name in the terminal, where a line has 80 columns; empty for a column of the other formats only.
        figure: How it is computed; None for the agreement of seeds.
        digits: Digits after the point in the terminal.
    """

    name: str
    heading: str
    figure: Figure | None
    digits: int = 2

    def estimate(self, one: Insight) -> Estimate:
        """Returns the figure of a setting; NaN where it does not apply, with an error of NaN where that is unknown."""
        return one.agreement if self.figure is None else one.estimate(self.figure)


@dataclass(frozen=True)
class Block:
    """Figures that answer one question.

    Attributes:
        title: The heading of their table, short.
        about: What they are, what they can say and what they cannot.
        columns: The figures.
    """

    title: str
    about: str
    columns: Sequence[Column]


def _column(name: str, heading: str = "", digits: int = 2) -> Column:
    return Column(name, heading, lambda mean: mean(name), digits)


def _over_random(kind: str, removal: str, ranking: str, heading: str) -> Column:
    """Fall of the probability less that with random tokens."""
    name = f"{kind}_{removal}"
    return Column(f"{name}_{ranking}", heading, lambda mean: mean(f"{name}_{ranking}") - mean(f"{name}_random"))


def _removal(removal: str, title: str, about: str) -> Block:
    """The block of one way to remove tokens."""
    rankings = {"attention": "attn", "input_x_gradient": "g*x", "integrated": "IG"}
    name = f"comprehensiveness_{removal}"

    def relative(mean: Means) -> Any:
        fall = mean(f"{name}_attention") - mean(f"{name}_random")
        return fall / (mean("p") - mean("p_unknown"))

    kinds = {"comprehensiveness": "C", "sufficiency": "S"}
    columns = [
        _over_random(kind, removal, ranking, f"{letter} {heading}")
        for kind, letter in kinds.items()
        for ranking, heading in rankings.items()
    ]
    random = [_column(f"{kind}_{removal}_random") for kind in kinds]
    return Block(title, about, (*columns, Column(f"{name}_relative", "C/all", relative), *random))


BLOCKS = (
    Block(
        "shape of weights",
        "tokens: exp(H) of the weights' entropy H, the number of tokens that even weights of this entropy would reach; "
        "of all: its share of the text; even: H / log n, 1 for even weights; overlap of hops: 0 none, 1 equal; weight "
        "on punctuation and on stop words, where even weights would have {punctuation_tokens:.2f} and "
        "{stop_word_tokens:.2f}; weight on the first and the last tenth of the text. They say how sharp the weights "
        "are and where they lie, not whether the prediction depends on these tokens: the state of a token may hold "
        "what its neighbours say.",
        (
            _column("effective_tokens", "tokens", 1),
            _column("effective_share", "of all"),
            _column("evenness", "even"),
            _column("hop_overlap", "overlap"),
            _column("punctuation", "punct."),
            _column("punctuation_tokens"),
            _column("stop_words", "stop"),
            _column("stop_word_tokens"),
            *(_column(f"tenth_{n}", {1: "first", 10: "last"}.get(n, "")) for n in range(1, 11)),
        ),
    ),
    _removal(
        "deleted",
        "tokens deleted",
        "C, comprehensiveness: by how much more the probability of the predicted class falls without a ranking's first "
        "1, 5, 10, 20 and 50% of the tokens than without as many random ones (10 draws); higher is better. S, "
        "sufficiency: the same with these tokens only; lower is better. Ranked by attention, by gradient times input "
        "(g*x) and by integrated gradients (IG). C/all: C of attention over the fall where all tokens are <unk>. They "
        "say whether the prediction depends on the tokens that are ranked first. A text with holes is unlike those of "
        "the training, and a gradient, which knows the predicted class, has an advantage.",
    ),
    _removal(
        "replaced",
        "tokens replaced",
        "The same, with <unk> in place of each removed token, so that the text keeps its length. Where the two "
        "disagree, what is measured is the removal rather than the attention.",
    ),
    Block(
        "rank correlation",
        "Kendall's tau, 0 for no relation: attention with the magnitude of integrated gradients (IG) and of gradient "
        "times input (g*x), beside its ceilings: IG with g*x, and the attention of two seeds, whose interval takes "
        "three. Low where the ceilings are high: attention and gradients name different tokens, which does not say "
        "which of them is right. IG err.: error of the integral over the change of the logit, 0 if exact.",
        (
            _column("tau_integrated", "attn~IG"),
            _column("tau_input_x_gradient", "attn~g*x"),
            _column("tau_gradients", "IG~g*x"),
            Column("tau_seeds", "two seeds", None),
            Column("integral_error", "IG err.", lambda mean: mean("integral_error") / mean("logit_change"), 4),
        ),
    ),
    Block(
        "other weights",
        "Accuracy on these rows with the model's own weights, and at test time with even ones or its own permuted over "
        "the text (10 draws). Where it stays, the trained model does not need its weights; a model trained without "
        "them is another question, which the leaderboard answers.",
        (
            _column("correct", "own", 3),
            _column("correct_uniform", "even", 3),
            _column("correct_permuted", "permuted", 3),
        ),
    ),
    Block(
        "gold rationale",
        "Average precision (AP) of the weights against the words that decide the label: of the mean over the hops, and "
        "of the best hop of each text; +-1: their neighbours count too. Beside each: what random weights with as many "
        "hops reach. It says whether a person would find the weights plausible, not whether the model uses these "
        "words.",
        (
            _column("average_precision", "AP"),
            _column("average_precision_random", "random"),
            _column("average_precision_best_hop", "best hop"),
            _column("average_precision_best_hop_random", "random"),
            _column("average_precision_near", "AP +-1"),
            _column("average_precision_near_random", "random"),
        ),
    ),
)


def lines(insights: Sequence[Insight], style: Format, *, rows: int) -> list[str]:
    """Returns the diagnostics as lines of text: a table for each question, or one table in the other formats.

    Args:
        insights: The diagnostics, on the same sample of rows.
        style: The format.
        rows: Number of rows of which they are a sample.
    """
    if not insights:
        return []
    if style != "table":
        columns = [column for block in BLOCKS for column in block.columns]
        ends = ("", "_low", "_high") if style == "csv" else ("",)
        header = ["settings", "seeds", "rows", *(f"{column.name}{end}" for column in columns for end in ends)]
        cells = [
            [*_about(one), *(cell for column in columns for cell in _paper(column, one, style))] for one in insights
        ]
        return ["", *paper_lines([header, *cells], style)]
    count = len(insights[0].seeds[0].weights)
    drawn = f"a sample of {count:,} of" if count < rows else "all"
    title = f"Does the attention mean anything? Means over {drawn} {rows:,} rows and over seeds, {INTERVALS}."
    blocks = [_block(block, insights) for block in BLOCKS]
    return ["", *textwrap.wrap(title, WIDTH), *(line for block in blocks if block for line in ("", *block))]


def tables(insights: Sequence[Insight]) -> list[tuple[list[str], list[list[str]], str]]:
    """Returns for each question the heading of its table, the rows and what they say, where any figure applies."""
    found = (_cells(block, insights) for block in BLOCKS) if insights else ()
    return [one for one in found if one is not None]


def stored_figures(folder: Path) -> dict[str, float]:
    """Returns the figures kept with a run, of the largest sample of each split, by names as `insight/test/evenness`."""
    found: dict[str, float] = {}
    for split in SPLITS:
        kept = filter(None, map(Diagnostics.load, folder.glob(FILE.format(split=split, rows="*"))))
        if largest := max(kept, key=lambda one: len(one.weights), default=None):
            columns = [column for block in BLOCKS for column in block.columns]
            values = {one.name: one.figure(largest.mean) for one in columns if one.figure}
            values["rows"] = len(largest.weights)
            found |= {f"insight/{split}/{name}": float(value) for name, value in values.items() if not np.isnan(value)}
    return found


def _block(block: Block, insights: Sequence[Insight]) -> list[str]:
    """Returns the table of a block and what it says; nothing where no figure applies."""
    if (found := _cells(block, insights)) is None:
        return []
    header, cells, about = found
    rows = [[name, *(cell.replace(" ", "\n") for cell in others)] for name, *others in cells]
    align = "<" + ">" * (len(header) - 1)
    return [*table_lines([header, *rows], align=align, wrap=0), *textwrap.wrap(about, WIDTH)]


def _cells(block: Block, insights: Sequence[Insight]) -> tuple[list[str], list[list[str]], str] | None:
    columns = [column for column in block.columns if column.heading]
    values = [[column.estimate(one) for column in columns] for one in insights]
    if all(np.isnan(estimate.value) for row in values for estimate in row):
        return None
    rows = [
        [one.setting.name, *(_rounded(estimate, column.digits) for estimate, column in zip(row, columns, strict=True))]
        for one, row in zip(insights, values, strict=True)
    ]
    header = [block.title, *(column.heading for column in columns)]
    about = block.about.format(**{name: insights[0].means(name)[:, 0].mean() for name in insights[0].seeds[0].figures})
    return header, rows, about


def _about(one: Insight) -> list[str]:
    return [one.setting.name, str(len(one.seeds)), str(len(one.seeds[0].weights))]


def _rounded(estimate: Estimate, digits: int) -> str:
    """The figure with half of its interval, with the same digits after the point."""
    half = "" if np.isnan(estimate.error) else f" ±{estimate.half_width():.{digits}f}"
    return ABSENT if np.isnan(estimate.value) else f"{estimate.value:.{digits}f}{half}"


def _paper(column: Column, one: Insight, style: Format) -> list[str]:
    """The cells of a figure: one, or with `csv` three."""
    estimate = column.estimate(one)
    return _ends(estimate) if style == "csv" else [_rounded(estimate, column.digits + 2)]


def _ends(estimate: Estimate) -> list[str]:
    """The figure and the ends of its interval as they are; empty where one seed gives none."""
    if np.isnan(estimate.value):
        return [ABSENT, "", ""]
    ends = () if np.isnan(estimate.error) else estimate.interval()
    return [*(f"{value:.17g}" for value in (estimate.value, *ends)), *[""] * (2 - len(ends))]
