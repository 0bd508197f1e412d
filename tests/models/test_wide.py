"""The linear model over n-grams, against counting by hand and NumPy in float64."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy.optimize import minimize_scalar
from torch.nn import functional

from sentattn import fit
from sentattn.build import build_data, build_model
from sentattn.config.compose import compose
from sentattn.data.batching import Batch
from sentattn.models.classifier import TextClassifier
from sentattn.models.embedding import UNKNOWN_ID, TrainingTexts
from sentattn.models.wide import WideNGrams, fit_scale
from sentattn.training.lit_module import LitClassifier
from sentattn.training.losses import ClassifierLoss

WORDS = 9
STATE = 4
"""Width of the encoder's states."""
ROWS = st.lists(st.lists(st.integers(UNKNOWN_ID, WORDS - 1), min_size=1, max_size=9), min_size=4, max_size=12)
Labelled = tuple[list[list[int]], list[int]]


def make(rows: list[list[int]], labels: list[int], *, classes: int = 3, **options: object) -> WideNGrams:
    wide = WideNGrams(num_embeddings=WORDS, classes=classes, dim=STATE, **({"min_count": 1} | options))
    offsets = np.cumsum([0, *map(len, rows)])
    tokens = np.concatenate(rows).astype(np.int64)
    wide.prepare_training(lambda: TrainingTexts(tokens, offsets, np.array(labels)))
    return wide.double().eval()


def batch(rows: list[list[int]], width: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(width, *map(len, rows))
    tokens_BL = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return tokens_BL, tokens_BL > 0


def logits(wide: WideNGrams, rows: list[list[int]], labels: list[int] | None = None, width: int = 0) -> torch.Tensor:
    """The logits of a wide part that attends to nothing, so that the states change nothing."""
    tokens_BL, mask_BL = batch(rows, width)
    states_BLD = torch.randn(*tokens_BL.shape, STATE, dtype=torch.float64)
    labels_B = None if labels is None else torch.tensor(labels)
    found_BC: torch.Tensor = wide(tokens_BL, mask_BL, states_BLD, labels_B).terms_BGC.sum(dim=1)
    return found_BC


def ngrams(row: list[int], orders: tuple[int, ...] = (1, 2, 3)) -> set[tuple[int, ...]]:
    all_of_them = {tuple(row[i : i + n]) for n in orders for i in range(len(row) - n + 1)}
    return {gram for gram in all_of_them if UNKNOWN_ID not in gram}


@st.composite
def labelled_rows(draw: st.DrawFn) -> Labelled:
    """Rows, of which one at least has an n-gram, and their labels."""
    rows = draw(ROWS.filter(lambda rows: any(map(ngrams, rows))))
    return rows, [draw(st.integers(0, 2)) for _ in rows]


def counted(texts: list[set[tuple[int, ...]]], labels: list[int], classes: int) -> dict[tuple[int, ...], list[int]]:
    """How many texts of each class have each n-gram."""
    known = set().union(*texts)
    return {
        f: [sum(f in text for text, y in zip(texts, labels, strict=True) if y == c) for c in range(classes)]
        for f in known
    }


def without(
    counts: dict[tuple[int, ...], list[int]], text: set[tuple[int, ...]], label: int
) -> dict[tuple[int, ...], list[int]]:
    """The counts of all other texts."""
    return {f: [n - (f in text and c == label) for c, n in enumerate(one)] for f, one in counts.items()}


def of_counts(counts: dict[tuple[int, ...], list[int]], classes: int) -> dict[tuple[int, ...], np.ndarray]:
    """The log-count ratios of all n-grams, after the definition."""
    totals = [sum(one[c] + 1 for one in counts.values()) for c in range(classes)]
    logs = {f: np.array([math.log((one[c] + 1) / totals[c]) for c in range(classes)]) for f, one in counts.items()}
    return {f: log - log.mean() for f, log in logs.items()}


@settings(deadline=None)
@given(labelled_rows())
def test_logits_are_the_weighted_ratios_of_the_distinct_ngrams(labelled: Labelled) -> None:
    rows, labels = labelled
    wide, texts = make(rows, labels), [ngrams(row) for row in rows]
    counts = counted(texts, labels, 3)
    assert len(counts) == len(wide.counts_FC)
    for given_labels in (None, labels):  # with them a training row is left out of its own ratios
        for text, label, found in zip(texts, labels, logits(wide, rows, given_labels).tolist(), strict=True):
            r = of_counts(counts if given_labels is None else without(counts, text, label), 3)
            expected = float(wide.scale) * sum((r[f] for f in text), np.zeros(3)) / max(1, len(text)) ** 0.5
            np.testing.assert_allclose(found, expected, atol=1e-6)


def test_counting_twice_gives_the_same_table() -> None:
    texts = corpus()
    wide = WideNGrams(num_embeddings=WORDS, classes=2, dim=STATE, min_count=1, vocab_size=64)
    wide.prepare_training(lambda: texts)
    once = copy.deepcopy(wide.state_dict())
    wide.prepare_training(lambda: texts)
    torch.testing.assert_close(wide.state_dict(), once, rtol=0, atol=0)


def test_ratios_of_training_rows_do_not_leak_random_labels() -> None:
    random = np.random.default_rng(0)
    rows, labels = random.integers(2, WORDS, (400, 8)).tolist(), random.integers(0, 2, 400)
    wide = make(rows, labels.tolist(), classes=2)
    with_own, without_own = (logits(wide, rows, given).argmax(dim=1).numpy() for given in (None, labels.tolist()))
    assert (with_own == labels).mean() > 0.7
    assert (without_own == labels).mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["model=wide"], ["model=mean", "model/wide=attended_ngrams"]])
@pytest.mark.parametrize("seed", [0, 1])
def test_accuracy_of_random_labels_is_chance(words: list[str], seed: int, tmp_path: Path) -> None:
    demo = build_data(compose(["data=demo"]))
    random = np.random.default_rng(seed)
    for split, rows in (("train", demo.split("train")), ("val", demo.split("val"))):
        lines = zip(map(rows.texts, range(len(rows))), random.permutation(rows.labels).tolist(), strict=True)
        file = tmp_path / f"{split}.jsonl"
        file.write_text("".join(json.dumps({"text": text, "label": str(label)}) + "\n" for text, label in lines))
    files = [f"data.{split}={tmp_path / split}.jsonl" for split in ("train", "val")]
    run = fit([*words, "data=table", *files, "test=false", "logger=none", f"output_dir={tmp_path / 'outputs'}"])
    assert run.result["metrics"]["val/accuracy"] == pytest.approx(0.5, abs=0.1)  # 4 standard errors of 500 rows


def test_gradients_are_finite_without_the_first_ngram() -> None:
    rows, labels = [[2, 3], [2, 4], [5, 6], [5, 7, 6]], [0, 0, 1, 1]
    wide = make(rows, labels, classes=2, vocab_size=64)
    logits(wide, rows, labels).square().sum().backward()
    assert wide.weights_FC.grad is not None
    assert wide.weights_FC.grad.isfinite().all()


def test_the_scale_minimizes_the_loss() -> None:
    random = np.random.default_rng(0)
    sums_NC, labels_N = random.normal(size=(200, 3)), random.integers(0, 3, 200)
    sums_NC[np.arange(200), labels_N] += 1.0
    tensors = torch.from_numpy(sums_NC), torch.from_numpy(labels_N)

    def loss(s: float) -> float:
        return float(functional.cross_entropy(s * tensors[0], tensors[1]))

    s = fit_scale(sums_NC, labels_N, most=10.0)
    assert loss(s) < min(loss(s - 0.01), loss(s + 0.01))
    assert minimize_scalar(loss, bracket=(0.1, 1.0)).x == pytest.approx(s, abs=1e-3)
    assert fit_scale(sums_NC, labels_N, most=s / 2) == pytest.approx(s / 2, abs=1e-4)


ROWS_OF_TWO = [[2, 3, 4], [2, 3, 5, 5], [6, 7], [6, 7, 8, 2], [3, 2], [7, 6, 6]]
LABELS_OF_TWO = [0, 0, 1, 1, 0, 1]


def test_padding_repetition_and_other_rows_are_ignored() -> None:
    wide = make(ROWS_OF_TWO, LABELS_OF_TWO, classes=2, vocab_size=64)
    together = logits(wide, ROWS_OF_TWO, width=9)
    for row, logits_C in zip(ROWS_OF_TWO, together, strict=True):
        torch.testing.assert_close(logits(wide, [row])[0], logits_C)
    torch.testing.assert_close(logits(wide, [[5, 5, 5, 5]]), logits(wide, [[5, 5, 5]]))


def test_the_most_frequent_ngrams_are_kept() -> None:
    assert len(make(ROWS_OF_TWO, LABELS_OF_TWO, vocab_size=4).counts_FC) == 4
    twice = make(ROWS_OF_TWO, LABELS_OF_TWO, min_count=2)
    assert len(twice.counts_FC) == len({(2,), (3,), (5,), (6,), (7,), (2, 3), (6, 7)})


def test_no_ngram_left_is_refused() -> None:
    assert refused(lambda: make(ROWS_OF_TWO, LABELS_OF_TWO, min_count=99)) == [("model.wide.min_count", "missing")]


@pytest.mark.parametrize("orders", [[], [0], [1, 1], [30]])
def test_faulty_orders_are_refused(orders: list[int]) -> None:
    with pytest.raises(ValueError, match="orders"):
        WideNGrams(num_embeddings=WORDS, classes=2, dim=STATE, orders=orders)


def test_tables_of_any_size_are_loaded() -> None:
    wide = make(ROWS_OF_TWO, LABELS_OF_TWO, classes=2).float()
    other = WideNGrams(num_embeddings=WORDS, classes=2, dim=STATE).eval()
    other.load_state_dict(wide.state_dict())
    assert torch.equal(logits(other.double(), ROWS_OF_TWO), logits(wide.double(), ROWS_OF_TWO))
    copied = copy.deepcopy(other)
    copied.load_state_dict(make(ROWS_OF_TWO, LABELS_OF_TWO, classes=2, vocab_size=3).state_dict())
    assert (len(copied.weights_FC), len(other.weights_FC)) == (3, len(wide.weights_FC))


def corpus(rows: int = 60, length: int = 12) -> TrainingTexts:
    """Rows of two classes, whose words are drawn with other shares, so that n-grams tell them apart well."""
    random = np.random.default_rng(0)
    labels_N = np.arange(rows) % 2
    shares = np.array([[4, 3, 2, 1, 1, 1, 1], [1, 1, 1, 1, 2, 3, 4]]) / 13
    tokens = np.concatenate([random.choice(np.arange(2, WORDS), length, p=shares[y]) for y in labels_N])
    return TrainingTexts(tokens, np.arange(0, rows * length + 1, length), labels_N)


def built(*words: str) -> TextClassifier:
    torch.manual_seed(0)
    node = compose(["model.wide.min_count=1"] * any("ngrams" in word for word in words) + list(words))["model"]
    model = build_model(node, num_embeddings=WORDS, classes=2)
    model.prepare_training(corpus)
    return model


def test_the_gradient_of_the_attention_is_that_without_a_wide_part() -> None:
    texts = corpus()
    tokens_BL, labels_B = torch.from_numpy(texts.tokens).view(60, 12), torch.from_numpy(texts.labels_N)
    batch_of_all = Batch(tokens_BL, tokens_BL > 0, labels_B, torch.arange(60), (tokens_BL > 0).sum(dim=1).numpy())
    gradients = {}
    for wide in ("none", "ngrams"):
        model = built("model=structured", f"model/wide={wide}").train()
        loss = ClassifierLoss(class_counts={"a": 30, "b": 30}, label_smoothing=0.1)
        lit = LitClassifier(model=model, loss=loss, optimizer=Mock(), scheduler=Mock(), classes=2, ordered=False)
        torch.manual_seed(1)
        lit.compute_loss(batch_of_all)[1].loss.backward()
        gradients[wide] = dict(model.named_parameters())
    for name, parameter in gradients["none"].items():
        torch.testing.assert_close(gradients["ngrams"][name].grad, parameter.grad)
    assert gradients["ngrams"]["wide.weights_FC"].grad.abs().max() > 0


@pytest.mark.parametrize(
    ("wide", "share"),
    [(["ngrams"], 0.75), (["attended_ngrams"], 0.5), (["attended_ngrams", "model.wide.attend=uniform"], 0.5)],
)
def test_parts_are_named_and_sum_to_the_logits(wide: list[str], share: float) -> None:
    tokens_BL, mask_BL = batch(ROWS_OF_TWO)
    model = built("model=mean", f"model/wide={wide[0]}", *wide[1:]).eval()
    classified = model(tokens_BL, mask_BL)
    assert model.parts == ("attention", "wide")
    parts = model.part_logits(classified)
    torch.testing.assert_close((1 - share) * parts["attention"] + share * parts["wide"], classified.logits_BC)
    assert parts["wide"].abs().max() > 0
    for alone in (built("model=wide").eval(), built("model=mean").eval()):
        assert not alone.part_logits(alone(tokens_BL, mask_BL))


def test_dropout_of_ngrams_keeps_the_mean() -> None:
    wide = make(ROWS_OF_TWO, LABELS_OF_TWO, classes=2, dropout=0.5).train()
    torch.manual_seed(0)
    rows = [ROWS_OF_TWO[3]] * 4000
    dropped_BC = logits(wide.train(), rows)
    torch.testing.assert_close(dropped_BC.mean(dim=0), logits(wide.eval(), rows[:1])[0], atol=0.05, rtol=0.05)


@pytest.mark.parametrize("with_labels", [False, True])
def test_attention_over_ngrams_by_numpy(with_labels: bool) -> None:
    wide = make(ROWS_OF_TWO, LABELS_OF_TWO, classes=2, attend=True)
    assert wide.scores is not None
    plain = make(ROWS_OF_TWO, LABELS_OF_TWO, classes=2)
    labels = LABELS_OF_TWO if with_labels else None
    tokens_BL, mask_BL = batch(ROWS_OF_TWO, width=6)
    torch.manual_seed(0)
    states_BLD = torch.randn(*tokens_BL.shape, STATE, dtype=torch.float64)
    given = (tokens_BL, mask_BL, states_BLD, torch.tensor(labels) if labels else None)
    # Scores start at 0: every n-gram counts 1, as without an attention.
    start = wide(*given)
    torch.testing.assert_close(start.terms_BGC.sum(dim=1), logits(plain, ROWS_OF_TWO, labels))
    torch.testing.assert_close(start.attended_BGC, start.terms_BGC)

    with torch.no_grad():
        wide.scores.weight.normal_()
        wide.weights_FC.normal_()
    found = wide(*given)
    scores_OBL = np.einsum("od,bld->obl", wide.scores.weight.detach().numpy(), states_BLD.numpy())
    counts = counted([ngrams(row) for row in ROWS_OF_TWO], LABELS_OF_TWO, 2)
    weights = {f: wide.weights_FC[i].detach().numpy() for i, f in enumerate(by_key(counts))}
    for b, (row, y) in enumerate(zip(ROWS_OF_TWO, LABELS_OF_TWO, strict=True)):
        grams = ngrams(row)
        r = of_counts(without(counts, grams, y) if with_labels else counts, 2)
        learned, naive = np.zeros(2), np.zeros(2)
        for f in grams:
            end = min(t for t in range(len(row)) if tuple(row[t - len(f) + 1 : t + 1]) == f and t + 1 >= len(f))
            powers = np.exp(scores_OBL[len(f) - 1, b, : len(row)])
            attention = len(row) * powers[end] / powers.sum()
            learned += attention * r[f] * weights[f] / len(grams) ** 0.5
            naive += attention * r[f] * float(wide.scale) / len(grams) ** 0.5
        np.testing.assert_allclose(found.terms_BGC[b].sum(dim=0).tolist(), learned, atol=1e-5)
        np.testing.assert_allclose(found.attended_BGC[b].sum(dim=0).tolist(), naive, atol=1e-5)


@pytest.mark.parametrize("with_labels", [False, True])
def test_uniform_attention_equals_zero_scores(with_labels: bool) -> None:
    texts = corpus()
    tokens_BL, labels_B = torch.from_numpy(texts.tokens).view(60, 12), torch.from_numpy(texts.labels_N)
    found, gradients = [], []
    for attend in ("uniform", "true"):
        model = built("model=structured", "model/wide=attended_ngrams", f"model.wide.attend={attend}").eval()
        torch.manual_seed(1)
        with torch.no_grad():
            model.wide.weights_FC.normal_()
        classified = model(tokens_BL, tokens_BL > 0, labels_B=labels_B if with_labels else None)
        parts = model.part_logits(classified)
        found.append([classified.logits_BC, *parts.values(), *classified.wide.terms])
        assert classified.wide.terms.attended_BGC.any()
        functional.cross_entropy(parts["attention"], labels_B).backward()
        gradients.append({name: one.grad for name, one in model.named_parameters() if one.grad is not None})
    torch.testing.assert_close(*found)
    uniform, learned = gradients
    assert learned.keys() - uniform.keys() == {"wide.scores.weight"}
    torch.testing.assert_close(uniform, {name: learned[name] for name in uniform})


def by_key(grams: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """N-grams in the order of the table's rows: as numbers whose digits are the words."""
    return sorted(grams, key=lambda gram: sum(word * WORDS**i for i, word in enumerate(reversed(gram))))


def test_the_attention_learns_from_its_own_loss_only() -> None:
    texts = corpus()
    tokens_BL, labels_B = torch.from_numpy(texts.tokens).view(60, 12), torch.from_numpy(texts.labels_N)
    model = built("model=structured", "model/wide=attended_ngrams").train()
    parts = model.part_logits(model(tokens_BL, tokens_BL > 0, labels_B=labels_B))
    gradients = {}
    for name, logits_BC in parts.items():
        model.zero_grad()
        functional.cross_entropy(logits_BC, labels_B).backward(retain_graph=True)
        gradients[name] = {key for key, one in model.named_parameters() if one.grad is not None and one.grad.any()}
    assert gradients["wide"] == {"wide.weights_FC"}
    assert "wide.scores.weight" in gradients["attention"]
    assert "wide.weights_FC" not in gradients["attention"]
