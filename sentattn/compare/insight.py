"""Diagnostics of the attention of compared runs: computed once, kept with each run, and shown as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from operator import sub
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sentattn.compare.runs import EvaluatedRun, Setting
from sentattn.compare.statistics import UNKNOWN, Estimate, Term, blocks, jackknife, seed_term
from sentattn.console import Format, Progress, Table, csv_lines, table_in_format, table_lines, wrap
from sentattn.errors import Fault, UserError, require_packages
from sentattn.insight.diagnostics import KINDS, SHARES, Diagnostics, Texts, diagnose, percent, rank_correlation, sample
from sentattn.insight.metrics import is_ranking
from sentattn.insight.weights import Over
from sentattn.metrics import Floats, Ints
from sentattn.prediction.model import LoadedRun
from sentattn.training.environment import keep_freed_memory

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

FILES: Mapping[Over, str] = {
    "tokens": "insight-{split}-{rows}.parquet",
    "ngrams": "insight-ngrams-{split}-{rows}.parquet",
}
"""The files of a run with the diagnostics of a sample, by what the attention is over."""
ROWS = 200
"""Rows of a sample: a mean fall of the probability is then known to about 0.02. A text costs hundreds of passes."""
INTERVALS = "with 95% intervals where there are seeds enough"
RANKINGS = {
    "attention": "attn",
    "attention_x_gradient": "a*g",
    "integrated_magnitude": "|IG|",
    "integrated": "IG",
    "input_x_gradient": "g*x",
}
"""The rankings of tokens, with their names in the terminal."""


@dataclass(frozen=True)
class Insight:
    """The diagnostics of an attention of a setting, for each seed.

    `block_N` numbers the blocks of texts for the jackknife; the texts of a group are in one block.
    """

    setting: Setting
    seeds: Sequence[Diagnostics]
    block_N: Ints
    over: Over = "tokens"

    @property
    def name(self) -> str:
        """The name of the setting, marked where the attention weighs n-grams."""
        return f"{self.setting.name} (n-grams)" if self.over == "ngrams" else self.setting.name

    @property
    def is_ranking(self) -> bool:
        """Whether the weights of any text rank its tokens."""
        return any(is_ranking(weights_L) for diagnostics in self.seeds for weights_L in diagnostics.weights)

    def estimate(
        self, names: Sequence[str], compute: Callable[..., Any] = lambda mean: mean, *, among: Sequence[str] = ()
    ) -> Estimate:
        """Returns the mean over seeds of a value that is computed from means over the same texts, with its error.

        A difference of two means is thus that of paired values. The errors from texts and from seeds are those of
        `statistics.estimates` for statistics that are no mean over rows. A value of NaN does not apply; an error of
        NaN is unknown, since the setting has too few seeds. The arguments of `compute` are the means of the metrics
        `names`; those of `among` have to apply to a text too for it to count.
        """
        values = []
        for diagnostics in self.seeds:
            is_left_out_N = ~diagnostics.applicable([*names, *among])
            values_N = [np.where(is_left_out_N, np.nan, diagnostics.values[name]) for name in names]
            values.append(compute(*(_means(of_name_N, self.block_N) for of_name_N in values_N)))
        values_SK = np.stack(values)
        seeds = [seed_term(values_SK[:, 0])] if len(self.seeds) > 1 else []
        return _estimate(values_SK, seeds, is_known=self.setting.has_seeds)

    def agreement(self, among: Sequence[str] = ()) -> Estimate:
        """Returns Kendall's tau between the attention of two seeds, mean over texts and pairs; NaN for one seed.

        Its error from the seeds is that of the jackknife, as the pairs of a seed are not independent; with two seeds
        it is unknown. Metrics `among` have to apply to a text, with both seeds, for it to count.
        """
        numbers = range(len(self.seeds))
        pairs = list(combinations(numbers, 2))
        if not pairs:
            return Estimate(np.nan, [UNKNOWN])
        of_pairs = [_agreement(self.seeds[first], self.seeds[second], among) for first, second in pairs]
        values_PK = np.stack([_means(of_pair_N, self.block_N) for of_pair_N in of_pairs])
        if len(pairs) == 1:
            return _estimate(values_PK, [], is_known=False)
        without_S = [values_PK[[seed not in pair for pair in pairs], 0].mean() for seed in numbers]
        return _estimate(values_PK, [jackknife(float(values_PK[:, 0].mean()), np.array(without_S))], is_known=True)

    def texts(self, among: Sequence[str]) -> int:
        """Returns the number of texts to which metrics apply, of the seed with the fewest."""
        return min(int(diagnostics.applicable(among).sum()) for diagnostics in self.seeds)


def _agreement(first: Diagnostics, second: Diagnostics, among: Sequence[str]) -> Floats:
    """The agreement of two seeds on each text, (texts,)."""
    counts_N = first.applicable(among) & second.applicable(among) if among else np.ones(len(first.weights), dtype=bool)
    weights = zip(counts_N, first.weights, second.weights, strict=True)
    return np.array(
        [rank_correlation(*pair) if counts and all(map(is_ranking, pair)) else np.nan for counts, *pair in weights]
    )


def _means(values_N: Floats, block_N: Ints) -> Floats:
    """The means over all texts to which a metric applies, and over those outside each block; NaN over none."""
    applies_N = ~np.isnan(values_N)
    sums_K = np.bincount(block_N, weights=np.where(applies_N, values_N, 0))
    counts_K = np.bincount(block_N, weights=applies_N)
    sums, counts = (np.concatenate([[of_K.sum()], of_K.sum() - of_K]) for of_K in (sums_K, counts_K))
    means: Floats = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def _estimate(values_SK: Floats, seeds: Sequence[Term], *, is_known: bool) -> Estimate:
    """The mean over seeds, with its errors where they are known."""
    value, *without_K = values_SK.mean(axis=0)
    rows = jackknife(value, np.array(without_K))
    if not is_known or np.isnan(rows.variance):
        return Estimate(float(value), [UNKNOWN])
    return Estimate(float(value), [rows, *seeds])


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
    data = cache(lambda: settings[0].runs[0].read_data(split))  # only if some diagnostics are not stored
    with Progress() as progress:
        for setting in settings:
            if "attention" not in setting.settings["model"]:
                continue
            try:
                seeds = [_diagnose(run, data, indices, split, progress) for run in setting.runs]
            except UserError as error:
                faults += error.faults
                continue
            attentions = [Insight(setting, [of_run[over] for of_run in seeds], block_N, over) for over in seeds[0]]
            # Even weights are shown only where no attention of the setting ranks tokens.
            result += [insight for insight in attentions if insight.is_ranking] or attentions[-1:]
    return result, list(dict.fromkeys(faults))


def _diagnose(
    run: EvaluatedRun, data: Callable[[], TextData], indices: Ints, split: str, progress: Progress
) -> dict[Over, Diagnostics]:
    """Returns the diagnostics of a run's attentions, which are kept in its directory."""
    is_attended = (run.settings["model"].get("wide") or {}).get("attend") is True
    attentions: list[Over] = ["tokens", "ngrams"] if is_attended else ["tokens"]
    files = {over: run.path / FILES[over].format(split=split, rows=len(indices)) for over in attentions}
    stored = {over: diagnostics for over, file in files.items() if (diagnostics := Diagnostics.load(file)) is not None}
    if len(stored) == len(files) and all(len(kept.weights) == len(indices) for kept in stored.values()):
        return stored
    rows, classifier = data().split(split), LoadedRun(run.path, trust=run.run.trust).classifier
    encoded = classifier.tokenizer.encode([rows.texts(i) for i in indices])
    texts = Texts(encoded, rows.labels[indices], [rows.rationale(i) for i in indices])
    stage = f"insight of {run.path.parent.name}/{run.path.name}"
    measured = diagnose(
        classifier.model, texts, attentions, lambda step, done, total: progress(f"{stage}: {step}", done, total)
    )
    result = dict(zip(attentions, measured, strict=True))
    for over, diagnostics in result.items():
        with suppress(OSError):  # in a directory that may not be written they are computed again the next time
            diagnostics.save(files[over])
    return result


@dataclass(frozen=True)
class Column:
    """A metric of a table, computed from the means of the metrics of texts that it needs; the agreement of seeds: none.

    The heading is its short name in the terminal and on pages; a metric without one is in CSV and on W&B alone.
    """

    name: str
    heading: str
    needs: Sequence[str]
    compute: Callable[..., Any] = lambda mean: mean
    digits: int = 2

    def estimate(self, insight: Insight, among: Sequence[str] = ()) -> Estimate:
        """Returns the metric of an attention, over the texts to which those of `among` apply too."""
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


def _columns(headings: Mapping[str, str], digits: int = 2) -> list[Column]:
    """Metrics of a text by name, with their headings."""
    return [Column(name, heading, [name], digits=digits) for name, heading in headings.items()]


def _less(name: str, heading: str, less: str, digits: int = 2) -> Column:
    """The mean difference of two metrics of a text."""
    return Column(name, heading, [name, less], sub, digits)


def _removal(kind: str, removal: str, title: str, about: str, more: Sequence[Column] = ()) -> Block:
    """The falls of the probability, less those with random tokens, for a kind and a way to remove tokens."""
    name = f"{kind}_{removal}"

    def relative(attention: Floats, random: Floats, whole: Floats, unknown: Floats) -> Floats:
        return (attention - random) / (whole - unknown)

    falls = [_less(f"{name}_{ranking}", heading, f"{name}_random") for ranking, heading in RANKINGS.items()]
    share = Column(f"{name}_relative", "attn/all", [f"{name}_attention", f"{name}_random", "p", "p_unknown"], relative)
    return Block(title, about, (*falls, share, *more, Column(f"{name}_random", "", [f"{name}_random"])))


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
            *_columns({"effective_tokens": "tokens"}, digits=1),
            *_columns({"effective_share": "of all", "evenness": "even", "hop_overlap": "overlap"}),
            *_columns({"punctuation": "punct.", "punctuation_tokens": ""}),
            *_columns({"stop_words": "stop", "stop_word_tokens": ""}),
            *_columns({f"tenth_{n}": {1: "first", 10: "last"}.get(n, "") for n in range(1, 11)}),
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
            *_columns({"tau_integrated": "attn~IG", "tau_input_x_gradient": "attn~g*x", "tau_gradients": "IG~g*x"}),
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
            *_columns({"correct": "own"}, digits=3),
            _less("correct_uniform", "even-own", "correct", 3),
            _less("correct_permuted", "perm.-own", "correct", 3),
            *_columns({"tvd_uniform": "TVD even", "tvd_permuted": "perm.", "jsd_adversarial": "JSD"}),
        ),
    ),
    Block(
        "gold rationale",
        "Average precision (AP) of the weights against the words that decide the label: of the mean over the hops, and "
        "of the best hop of each text; +-1: their neighbours count too. Next to each: what random weights with as many "
        "hops reach. It says whether a person would find the weights plausible, not whether the model uses these "
        "words.",
        [
            *_columns({"average_precision": "AP", "average_precision_random": "random"}),
            *_columns({"average_precision_best_hop": "best hop", "average_precision_best_hop_random": "random"}),
            *_columns({"average_precision_near": "AP +-1", "average_precision_near_random": "random"}),
        ],
    ),
)


CURVES = Block(
    "by share of the tokens",
    "",
    [
        _less(f"{kind}_deleted_{ranking}_{percent(share)}", "", f"{kind}_deleted_random_{percent(share)}")
        for kind in KINDS
        for ranking in RANKINGS
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


def tables(insights: Sequence[Insight]) -> list[Table]:
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
        shown.append(Table([block.title, *(block.columns[i].heading for i in visible)], rows, about))
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


def _texts(texts: Sequence[str], style: Format) -> list[str]:
    """Returns texts as lines of a format: as they are in Markdown, as comments in LaTeX."""
    if style == "markdown":
        return [line for text in texts for line in ("", text)]
    mark = "% " if style == "latex" else ""
    return [line for text in texts for line in wrap(text, mark, mark)]


def rounded(estimate: Estimate, digits: int, *, sign: str = "") -> str:
    """Returns the value with half of its interval, with the same digits after the point."""
    half = "" if np.isnan(estimate.error) else f" ±{estimate.half_width():.{digits}f}"
    return "-" if np.isnan(estimate.value) else f"{estimate.value:{sign}.{digits}f}{half}"


def _values(insights: Sequence[Insight]) -> Iterator[list[str]]:
    """Yields the unrounded value of each attention and metric, and the ends of its interval; empty where unknown."""
    for insight in insights:
        start = [insight.name, str(len(insight.seeds)), str(len(insight.block_N))]
        for block in (*BLOCKS, CURVES):
            for column, estimate in zip(block.columns, block.estimates(insight), strict=True):
                if not np.isnan(estimate.value):
                    ends = ["", ""] if np.isnan(estimate.error) else [f"{end:.17g}" for end in estimate.interval()]
                    yield [*start, column.name, f"{estimate.value:.17g}", *ends]
