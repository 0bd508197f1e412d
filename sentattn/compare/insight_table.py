"""Tables of the diagnostics of attentions, each with a text on how to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import sub
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sentattn.compare.insight import FILES, Insight
from sentattn.compare.leaderboard import Format, csv_lines, table_in_format, wrap
from sentattn.compare.statistics import Estimate
from sentattn.console import table_lines
from sentattn.insight.diagnostics import Diagnostics
from sentattn.insight.faithfulness import KINDS, SHARES, percent
from sentattn.metrics import Floats
from sentattn.run import SPLITS

ABSENT = "-"
"""Shown where a metric does not apply."""
INTERVALS = "with 95% intervals where there are seeds enough"
"""The part of a heading about intervals."""
RANKINGS = {
    "attention": "attn",
    "attention_x_gradient": "a*g",
    "integrated_magnitude": "|IG|",
    "integrated": "IG",
    "input_x_gradient": "g*x",
}
"""The rankings of tokens, with their names in the terminal."""


@dataclass(frozen=True)
class Column:
    """A metric of a table.

    Attributes:
        name: Its name in CSV and on Weights & Biases.
        heading: Its name in the other formats, short; empty for a metric that they do not have.
        needs: The metrics of texts from whose means it is computed; none for the agreement of seeds.
        compute: Computes it from these means.
        digits: Digits after the point.
    """

    name: str
    heading: str
    needs: Sequence[str]
    compute: Callable[..., Any] = lambda mean: mean
    digits: int = 2

    def estimate(self, insight: Insight, among: Sequence[str] = ()) -> Estimate:
        """Returns the metric of an attention, over the texts to which further metrics apply (`Insight.estimate`)."""
        return insight.estimate(self.needs, self.compute, among=among) if self.needs else insight.agreement(among)


@dataclass(frozen=True)
class Block:
    """Metrics that answer one question, all of them means over the same texts; `about` says how to read them."""

    title: str
    about: str
    columns: Sequence[Column]

    @property
    def needs(self) -> list[str]:
        """The metrics that have to apply to a text for it to count, as far as they apply to any text of a setting."""
        return list(dict.fromkeys(name for column in self.columns for name in column.needs))

    def estimates(self, insight: Insight) -> list[Estimate]:
        """Returns the metrics of an attention."""
        return [column.estimate(insight, self.needs) for column in self.columns]


class Shown(NamedTuple):
    """A table as text."""

    heading: list[str]
    rows: list[list[str]]
    about: str


def _column(name: str, heading: str = "", digits: int = 2) -> Column:
    return Column(name, heading, [name], digits=digits)


def _less(name: str, heading: str, of: str, less: str, digits: int = 2) -> Column:
    """The mean difference of two metrics of a text."""
    return Column(name, heading, [of, less], sub, digits)


def _removal(kind: str, removal: str, title: str, about: str, more: Sequence[Column] = ()) -> Block:
    """The falls of the probability, less those with random tokens, for a kind and a way to remove tokens."""
    name = f"{kind}_{removal}"

    def relative(attention: Floats, random: Floats, whole: Floats, unknown: Floats) -> Floats:
        return (attention - random) / (whole - unknown)

    rankings = [(f"{name}_{ranking}", heading) for ranking, heading in RANKINGS.items()]
    falls = [_less(ranking, heading, ranking, f"{name}_random") for ranking, heading in rankings]
    share = Column(f"{name}_relative", "attn/all", [f"{name}_attention", f"{name}_random", "p", "p_unknown"], relative)
    return Block(title, about, (*falls, share, *more, _column(f"{name}_random")))


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
        "comprehensiveness",
        "deleted",
        "C, tokens deleted",
        "C, comprehensiveness: by how much more the probability of the predicted class falls without a ranking's "
        "first 1, 5, 10, 20 and 50% of the tokens than without as many random ones (10 draws); higher is better. "
        "Ranked by attention, by attention times gradient (a*g), by the magnitude of integrated gradients (|IG|), by "
        "these themselves (IG) and by gradient times input (g*x). IG and g*x know which tokens speak for the "
        "predicted class, which attention does not: |IG| is the fair comparison. attn/all: C of attention over the "
        "fall where all tokens are <unk>. C says whether the prediction depends on the tokens that are ranked first. "
        "A text with holes is unlike those of the training. The mean is over the five shares; ERASER divides the same "
        "sum by one more than their number, so its values are 5/6 of these. IG err.: mean error of the integral over "
        "the mean change of the logit, 0 if exact; points are added, up to 160, until that of a text is below 5%.",
        [Column("integral_error", "IG err.", ["integral_error", "logit_change"], lambda error, of: error / of, 3)],
    ),
    _removal(
        "sufficiency",
        "deleted",
        "S, tokens deleted",
        "S, sufficiency: the same with these tokens only; lower is better. ERASER's values are 5/6 of these.",
    ),
    _removal(
        "comprehensiveness",
        "replaced",
        "C, tokens replaced",
        "The same as C above, with <unk> in place of each removed token, so that the text keeps its length. Where the "
        "two disagree, what is measured is the removal rather than the attention.",
    ),
    _removal("sufficiency", "replaced", "S, tokens replaced", "The same as S above, with <unk> in place of others."),
    Block(
        "rank correlation",
        "Kendall's tau, 0 for no relation: attention with the magnitude of integrated gradients (IG) and of gradient "
        "times input (g*x), next to its ceilings: IG with g*x, and the attention of two seeds, whose interval takes "
        "three. Low where the ceilings are high: attention and gradients name different tokens, which does not say "
        "which of them is right.",
        (
            _column("tau_integrated", "attn~IG"),
            _column("tau_input_x_gradient", "attn~g*x"),
            _column("tau_gradients", "IG~g*x"),
            Column("tau_seeds", "two seeds", []),
        ),
    ),
    Block(
        "other weights",
        "Accuracy on these rows with the model's own weights, and by how much it changes at test time with even ones "
        "and with its own permuted over the text (10 draws). TVD: total variation distance of the probabilities from "
        "the model's own, with even and with permuted weights (median over draws). JSD: Jensen-Shannon divergence, 0 "
        "to 0.69, of the weights least like the model's own that were found to change the probabilities by a TVD of at "
        "most 0.01 (Jain and Wallace 2019). Where accuracy stays, TVD is low or JSD high, the trained model does not "
        "need its weights; a model trained without them is another question, which the leaderboard answers.",
        (
            _column("correct", "own", 3),
            _less("correct_uniform", "even-own", "correct_uniform", "correct", 3),
            _less("correct_permuted", "perm.-own", "correct_permuted", "correct", 3),
            _column("tvd_uniform", "TVD even"),
            _column("tvd_permuted", "perm."),
            _column("jsd_adversarial", "JSD"),
        ),
    ),
    Block(
        "gold rationale",
        "Average precision (AP) of the weights against the words that decide the label: of the mean over the hops, and "
        "of the best hop of each text; +-1: their neighbours count too. Next to each: what random weights with as many "
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


CURVES = Block(
    "by share of the tokens",
    "",
    [
        _less(f"{name}_{percent(share)}", "", f"{name}_{percent(share)}", f"{kind}_deleted_random_{percent(share)}")
        for kind in KINDS
        for name in [f"{kind}_deleted_{ranking}" for ranking in RANKINGS]
        for share in SHARES
    ],
)
"""The falls at each share of the tokens, which tables show the mean of."""
OUTCOMES = (
    "falls more than for random tokens with {}",
    "does not fall measurably more with {}",
    "falls less with {}",
    "falls by a difference without an interval with {}",
)
"""The conclusions about attentions."""


def lines(insights: Sequence[Insight], style: Format, *, rows: int) -> list[str]:
    """Returns the diagnostics of a sample of rows: a table for each question, or with `csv` a line for each metric."""
    if not insights:
        return []
    if style == "csv":
        return ["", *csv_lines([["settings", "seeds", "rows", "metric", "value", "low", "high"], *_values(insights)])]
    count = len(insights[0].seeds[0].weights)
    drawn = f"a sample of {count:,} of" if count < rows else "all"
    title = f"Does the attention mean anything? Means over {drawn} {rows:,} rows and over seeds, {INTERVALS}."
    shown = ["", *_texts([title, conclusion(insights)], style)]
    for heading, cells, about in tables(insights):
        if style == "table":
            broken = [[name, *(cell.replace(" ±", "\n±") for cell in others)] for name, *others in (heading, *cells)]
            table = table_lines(broken, align="<" + ">" * (len(heading) - 1), wrap=0)
        else:
            table = table_in_format([heading, *cells], style)
        shown += ["", *table, *_texts([about], style)]
    return shown


def tables(insights: Sequence[Insight]) -> list[Shown]:
    """Returns for each question its table and how to read it, if any of its metrics applies."""
    shown = []
    for block in BLOCKS if insights else ():
        estimates = [block.estimates(insight) for insight in insights]
        if np.isnan([[estimate.value for estimate in row] for row in estimates]).all():
            continue
        visible = [i for i, column in enumerate(block.columns) if column.heading]
        rows = [
            [insight.name, *(rounded(row[i], block.columns[i].digits) for i in visible)]
            for insight, row in zip(insights, estimates, strict=True)
        ]
        values = {column.name: estimate.value for column, estimate in zip(block.columns, estimates[0], strict=True)}
        about = block.about.format(**values)
        counts = [count for insight in insights if (count := insight.texts(block.needs))]
        if counts and min(counts) < (total := len(insights[0].block_N)):
            about += f" The values of a row are means over the same texts, {min(counts)} of {total} or more."
        shown.append(Shown([block.title, *(block.columns[i].heading for i in visible)], rows, about))
    return shown


def conclusion(insights: Sequence[Insight]) -> str:
    """Returns for which attentions the prediction depends on the tokens that they rank first."""
    block = next(block for block in BLOCKS if block.title == "C, tokens deleted")
    groups: dict[int, list[str]] = {}
    for insight in insights:
        estimate = block.columns[0].estimate(insight, block.needs)
        if not np.isnan(estimate.value):
            low, high = (np.nan, np.nan) if np.isnan(estimate.error) else estimate.interval()
            outcome = 3 if np.isnan(low) else 0 if low > 0 else 2 if high < 0 else 1
            groups.setdefault(outcome, []).append(f"{insight.name} ({rounded(estimate, 2, sign='+')})")
    clauses = [OUTCOMES[outcome].format(" and ".join(groups[outcome])) for outcome in sorted(groups)]
    if even := [insight.name for insight in insights if not insight.is_ranking]:
        verb = "has" if len(even) == 1 else "have"
        clauses.append(f"{' and '.join(even)} {verb} even weights, which rank no token")
    start = "When the tokens that an attention ranks first are deleted, the probability of the predicted class "
    return f"{start if groups else ''}{'; '.join(clauses)}."


def stored_metrics(folder: Path) -> dict[str, float]:
    """Returns the stored diagnostics of a run, of the largest sample of each split, such as `insight/val/evenness`.

    Those of an attention over n-grams are called `insight/val/ngrams/evenness`.
    """
    metrics: dict[str, float] = {}
    for split in SPLITS:
        for over, file in FILES.items():
            kept = filter(None, map(Diagnostics.load, folder.glob(file.format(split=split, rows="*"))))
            if largest := max(kept, key=lambda diagnostics: len(diagnostics.weights), default=None):
                prefix = f"insight/{split}/{'ngrams/' if over == 'ngrams' else ''}"
                metrics[f"{prefix}rows"] = len(largest.weights)
                for block in BLOCKS:
                    for column in block.columns:
                        if column.needs:
                            value = column.compute(*largest.means(column.needs, block.needs))
                            metrics[f"{prefix}{column.name}"] = float(value)
    return {name: value for name, value in metrics.items() if not np.isnan(value)}


def _texts(texts: Sequence[str], style: Format) -> list[str]:
    """Returns texts as lines of a format: as they are in Markdown, as comments in LaTeX."""
    if style == "markdown":
        return [line for text in texts for line in ("", text)]
    mark = "% " if style == "latex" else ""
    return [line for text in texts for line in wrap(text, mark, mark)]


def rounded(estimate: Estimate, digits: int, *, sign: str = "") -> str:
    """Returns the value with half of its interval, with the same digits after the point."""
    half = "" if np.isnan(estimate.error) else f" ±{estimate.half_width():.{digits}f}"
    return ABSENT if np.isnan(estimate.value) else f"{estimate.value:{sign}.{digits}f}{half}"


def _values(insights: Sequence[Insight]) -> Iterator[list[str]]:
    """Yields the unrounded value of each attention and metric, and the ends of its interval; empty where unknown."""
    for insight in insights:
        start = [insight.name, str(len(insight.seeds)), str(len(insight.block_N))]
        for block in (*BLOCKS, CURVES):
            for column, estimate in zip(block.columns, block.estimates(insight), strict=True):
                if not np.isnan(estimate.value):
                    ends = ["", ""] if np.isnan(estimate.error) else [f"{end:.17g}" for end in estimate.interval()]
                    yield [*start, column.name, f"{estimate.value:.17g}", *ends]
