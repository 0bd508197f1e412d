"""A linear model over n-grams next to a deep model: their logits are added (wide and deep, Cheng et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from sentattn.config.types import ClosedFraction, Count, Fraction, NonNegative, Positive, checked
from sentattn.errors import DataError, Fault
from sentattn.models.classifier import Classified, CrossEntropy, TextClassifier, WideOutput, WideTerms
from sentattn.models.embedding import TrainingTexts
from sentattn.models.ngrams import frequent_keys, ngram_keys, require_orders, table_rows

ROWS = 32
"""Training rows that are read together; ratios of many more for hundreds of classes do not fit a cache."""
MAX_PLACES = 2**32
"""More than the n-grams of any text."""


class NoWide:
    """No wide part: the deep model alone."""


class WideAndDeep(TextClassifier):
    """A deep and a wide part, each trained by a loss of its own.

    logits = (1 - s) (deep + attended) + s wide, with the wide part's share s, and what its n-grams add to the deep
    part's logits (`WideTerms.attended_BGC`). Trained by the loss of this sum, the deep part learns next to nothing, so
    the loss is that of deep + attended plus that of wide, whose labels are not smoothed. Without words to read, the
    deep part is the intercept of one linear model: logits = deep + wide, and its loss is that of these logits.

    The modules of the deep part are those of this model, so that weights have the same names with and without a wide
    part.

    Args:
        deep: The deep part.
        wide: The wide part.

    Attributes:
        deep_share: Share of the deep part's logits.
        wide_share: Share of the wide part's logits.
    """

    def __init__(self, deep: TextClassifier, wide: WideNGrams) -> None:
        super().__init__(
            embedding=deep.embedding,
            encoder=deep.encoder,
            attention=deep.attention,
            pooling=deep.pooling,
            head=deep.head,
            name=deep.name,
        )
        self.wide = wide
        self.parts = ("attention", "wide") if deep.embedding.reads else ()
        self.deep_share, self.wide_share = (1 - wide.share, wide.share) if self.parts else (1.0, 1.0)

    def forward(
        self, tokens_BL: Tensor, mask_BL: Tensor, *, labels_B: Tensor | None = None, **batch: Any
    ) -> Classified:
        """Classifies a batch; with labels_B each training row is left out of the counts of its own n-grams."""
        deep = super().forward(tokens_BL, mask_BL, **batch)
        return self.add(deep, self.wide(tokens_BL, mask_BL, deep.states_BLD, labels_B))

    def add(self, deep: Classified, terms: WideTerms) -> Classified:
        """Adds the logits of the wide part to those of the deep part."""
        deep_BC, wide_BC = deep.logits_BC, terms.terms_BGC.sum(dim=1)
        if not self.parts:
            return deep._replace(logits_BC=deep_BC + wide_BC, wide=WideOutput(deep_BC, wide_BC, terms))
        deep_BC = deep_BC + terms.attended_BGC.sum(dim=1)
        logits_BC = self.deep_share * deep_BC + self.wide_share * wide_BC
        return deep._replace(logits_BC=logits_BC, wide=WideOutput(deep_BC, wide_BC, terms))

    def cross_entropy(self, classified: Classified, labels_B: Tensor, cross_entropy: CrossEntropy) -> Tensor:
        """Returns the sum over both parts in training, and that of the logits in evaluation."""
        if not self.parts:
            return cross_entropy(classified.logits_BC, labels_B, smooth=False)
        if not self.training:
            return cross_entropy(classified.logits_BC, labels_B)
        deep_BC, wide_BC = self.part_logits(classified).values()
        entropies = [cross_entropy(deep_BC, labels_B), cross_entropy(wide_BC, labels_B, smooth=False)]
        return torch.stack(entropies).sum()

    def part_logits(self, classified: Classified) -> dict[str, Tensor]:
        """Returns logits_BC of each of `parts`."""
        assert classified.wide is not None
        return dict(zip(self.parts, classified.wide[:2], strict=False))

    def prepare_training(self, read: Callable[[], TrainingTexts]) -> None:
        """Reads the training texts for both parts."""
        super().prepare_training(read)
        self.wide.prepare_training(read)

    def ngram_terms(self, terms: WideTerms, attention_BOL: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns the terms of n-grams in the logits, by the order and the token at which they end.

        These are counts_BOL, how much an n-gram counts, 0 where there is none, by default 1; and effects_BOLC, what it
        adds where it counts 1.
        """
        terms_BGC = self.deep_share * terms.attended_BGC + self.wide_share * terms.terms_BGC
        size, orders, classes = len(terms_BGC), len(self.wide.orders), terms_BGC.shape[-1]
        is_present_BG = torch.zeros_like(terms.is_present_BG).scatter(1, terms.places_BG, terms.is_present_BG)
        index_BGC = terms.places_BG[..., None].expand_as(terms_BGC)
        terms_BOLC = torch.zeros_like(terms_BGC).scatter(1, index_BGC, terms_BGC).view(size, orders, -1, classes)
        counts_BOL = is_present_BG.view(size, orders, -1).to(terms_BGC.dtype)
        if attention_BOL is not None:
            counts_BOL = counts_BOL * attention_BOL
        return counts_BOL, terms_BOLC / counts_BOL.clamp_min(torch.finfo(terms_BGC.dtype).tiny)[..., None]

    def spread_over_tokens(self, scores_BOL: Tensor) -> Tensor:
        """Spreads the scores of n-grams, which are at their last tokens, evenly over their tokens."""
        rows = [
            functional.pad(scores_BOL[:, row], (0, order - 1)).unfold(-1, order, 1).sum(dim=-1) / order
            for row, order in enumerate(self.wide.orders)
        ]
        return torch.stack(rows, dim=1)

    def own_groups(self, options: Collection[str]) -> list[dict[str, Any]]:
        """Adds the weights of the wide part, which have their own learning rate and plain gradient descent.

        Adam and its like divide by root mean squares of gradients plus `eps`. These stay below 0.1, so eps=1 turns Adam
        into SGD.

        Raises:
            ValueError: If the optimizer cannot do so.
        """
        if "eps" in options:
            plain = {"eps": 1.0}
        elif "momentum" in options:
            plain = {"momentum": 0.0}
        else:
            raise ValueError("model/wide=ngrams needs an optimizer with eps or momentum, such as Adam or SGD")
        group = {"params": [self.wide.weights_FC], "lr": self.wide.lr, "weight_decay": self.wide.weight_decay}
        return [*super().own_groups(options), group | plain]


class WideNGrams(nn.Module):
    """A linear model over the n-grams of a text, which starts as naive Bayes (Wang and Manning 2012).

    logit_c = sum over the text's G distinct n-grams f of a_f r_cf w_cf / sqrt(G), with the log-count ratio r_cf =
    log p(f|c) - mean over classes c' of log p(f|c') and p(f|c) = (n_cf + 1) / sum over f of (n_cf + 1), where n_cf of
    the training rows of class c have the n-gram. Each weight is w_cf = s v_cf: v starts at 1 and is learned, s is the
    scale at which the training rows are explained best, each by ratios from the other rows. A training row is always
    left out of its own ratios (n_cf - 1 in its own class): with itself it is explained so well that no part has
    anything to learn. The root keeps long texts, whose n-grams say the same again and again, from being too certain.

    The attention a_f = n softmax_t(u_o h_t) says how much an n-gram of o words counts where it first ends, at token t
    of n with the encoder's state h_t; u starts at 0, so that all count 1. It is trained with the attention's logits, to
    which the sum with all weights s is added: the learned weights soon explain the training rows so well that there is
    nothing to learn from the sum with them. An attention that is `uniform` has the same sum with a_f = 1 among its
    logits, so that against it a learned one differs in a_f alone. Without an attention over n-grams a_f = 1, and the
    attention's logits have no such sum.

    The weights are learned by plain gradient descent. Steps of equal size, as Adam takes them, would give an n-gram of
    two rows as much weight as one of two thousand.

    Args:
        num_embeddings: Number of ids of tokens, the special ones included.
        num_special: Number of special ids, the first ones, which are in no n-gram.
        classes: Number of classes C.
        dim: Width of the encoder's states.
        orders: Lengths of the n-grams.
        attend: Whether an attention over the encoder's states decides how much an n-gram counts (true), all count
            the same in the attention's logits too (`uniform`), or those logits have no n-grams (false).
        vocab_size: Most n-grams that have a weight for each class.
        min_count: How often an n-gram must occur in the training rows to have one.
        dropout: Share of a text's n-grams left out while training.
        share: Its share in the weighted sum of its logits and the attention's. Each part is trained by a loss of its
            own: trained by the loss of the sum, the attention learns next to nothing. 1 shows the wide part alone, as
            it is trained in this model.
        lr: Learning rate of the weights, with the schedule of the optimizer's.
        weight_decay: Weight decay of the weights, towards 0.

    Attributes:
        weights_FC: The weights that are learned with `lr`; all others are learned as those of the attention are.
        scale: The scale s.
    """

    keys: Tensor
    counts_FC: Tensor
    totals_C: Tensor
    scale: Tensor

    @checked
    def __init__(
        self,
        *,
        num_embeddings: Count,
        num_special: Count = 2,
        classes: Count,
        dim: int,
        orders: Sequence[Count] = (1, 2, 3),
        attend: bool | Literal["uniform"] = False,
        vocab_size: Count = 1000000,
        min_count: Count = 2,
        dropout: Fraction = 0.0,
        share: ClosedFraction = 0.75,
        lr: Positive = 500.0,
        weight_decay: NonNegative = 0.0,
    ) -> None:
        super().__init__()
        require_orders(orders, num_embeddings, least=1)
        self.orders, self.classes = tuple(orders), classes
        self.base, self.num_special = num_embeddings, num_special
        self.vocab_size, self.min_count = vocab_size, min_count
        self.dropout, self.share = dropout, share
        self.lr, self.weight_decay = lr, weight_decay
        self.attend = attend
        self.scores = nn.Linear(dim, len(self.orders), bias=False) if attend is True else None
        if self.scores is not None:
            nn.init.zeros_(self.scores.weight)
        self.register_buffer("keys", torch.empty(0, dtype=torch.int64))
        self.register_buffer("counts_FC", torch.empty(0, classes, dtype=torch.int32))
        self.register_buffer("totals_C", torch.empty(classes, dtype=torch.int64))
        self.register_buffer("scale", torch.empty(()))
        self.weights_FC = nn.Parameter(torch.empty(0, classes))
        self.resize(1)
        self.register_load_state_dict_pre_hook(_resize_to)  # type: ignore[no-untyped-call]  # torch has no types for it

    def resize(self, size: int) -> None:
        """Makes room for so many n-grams, which have no name, no row and weight 0."""
        self.keys = self.keys.new_full((size,), -1)
        self.counts_FC = self.counts_FC.new_zeros(size, self.classes)
        self.totals_C = self.totals_C.new_zeros(self.classes)
        self.scale = self.scale.new_zeros(())
        self.weights_FC = nn.Parameter(self.weights_FC.new_zeros(size, self.classes))

    @torch.no_grad()
    def prepare_training(self, read: Callable[[], TrainingTexts]) -> None:
        """Counts the n-grams of the training rows, and fits the scale.

        Raises:
            DataError: If no n-gram is frequent enough.
        """
        texts = read()
        most, least = self.vocab_size, self.min_count
        kept = frequent_keys(texts, self.orders, self.base, self.num_special, most=most, min_count=least)
        if not len(kept):
            message = f"model.wide.min_count={self.min_count} leaves no n-gram of the training rows: lower it."
            raise DataError(Fault("model.wide.min_count", "missing", message))
        self.resize(len(kept))
        self.keys = torch.from_numpy(kept)
        cells = self.counts_FC.view(-1)
        for tokens_BL, labels_B, _ in _batches(texts):
            rows_BG, _ = self._rows(tokens_BL)
            is_present_BG = rows_BG >= 0
            cells_G = (rows_BG * self.classes + labels_B[:, None])[is_present_BG]
            cells.index_add_(0, cells_G, torch.ones_like(cells_G, dtype=cells.dtype))
            self.totals_C.index_add_(0, labels_B, is_present_BG.sum(dim=1))
        sums_NC = np.empty((len(texts.labels_N), self.classes))
        for tokens_BL, labels_B, rows_B in _batches(texts):
            rows_BG, _ = self._rows(tokens_BL)
            sums_NC[rows_B] = _scaled(self._ratios(rows_BG, labels_B), rows_BG).sum(dim=1).numpy()
        naive_bayes = float((self.totals_C.sum() / len(sums_NC)).sqrt())  # at a text of average length
        self.scale.fill_(fit_scale(sums_NC, texts.labels_N, most=naive_bayes))
        self.weights_FC.fill_(float(self.scale))

    def forward(
        self, tokens_BL: Tensor, mask_BL: Tensor, states_BLD: Tensor, labels_B: Tensor | None = None
    ) -> WideTerms:
        """Returns what its n-grams add to the logits.

        Args:
            tokens_BL: Ids of the tokens, padded at the end.
            mask_BL: True at real tokens.
            states_BLD: The encoder's states, which say what to attend to.
            labels_B: The labels of training rows; a row's own does not count for it.
        """
        rows_BG, places_BG = self._rows(tokens_BL)
        ratios_BGC = self._ratios(rows_BG, labels_B)
        if self.training and self.dropout:
            is_kept_BG = torch.rand(rows_BG.shape, device=rows_BG.device) >= self.dropout
            ratios_BGC = ratios_BGC * (is_kept_BG / (1 - self.dropout))[..., None]
        ratios_BGC = _scaled(ratios_BGC, rows_BG)
        weights_BGC = functional.embedding(rows_BG.clamp_min(0), self.weights_FC)
        is_present_BG = rows_BG >= 0
        attention_BOL = self.attention(states_BLD, mask_BL)
        if attention_BOL is None:
            attended_BGC = self.scale * ratios_BGC if self.attend else torch.zeros_like(ratios_BGC)
            return WideTerms(ratios_BGC * weights_BGC, attended_BGC, places_BG, is_present_BG)
        attention_BG1 = attention_BOL.flatten(1).gather(1, places_BG)[..., None].to(ratios_BGC.dtype)
        terms_BGC = attention_BG1.detach() * ratios_BGC * weights_BGC
        return WideTerms(terms_BGC, self.scale * attention_BG1 * ratios_BGC, places_BG, is_present_BG)

    def attention(self, states_BLD: Tensor, mask_BL: Tensor) -> Tensor | None:
        """Returns n softmax_t(u_o h_t) of n tokens, (B, orders, L); None without an attention over n-grams."""
        if self.scores is None:
            return None
        scores_BLO = self.scores(states_BLD).masked_fill(~mask_BL[..., None], float("-inf"))
        attention_BLO: Tensor = mask_BL.sum(dim=1)[:, None, None] * scores_BLO.softmax(dim=1)
        return attention_BLO.transpose(1, 2)

    def _ratios(self, rows_BG: Tensor, labels_B: Tensor | None) -> Tensor:
        """Returns the log-count ratios ratios_BGC, 0 at row -1; with labels each row is left out of its own."""
        is_present_BG = rows_BG >= 0
        counts_BGC, totals_BC = self.counts_FC[rows_BG.clamp_min(0)], self.totals_C[None]
        if labels_B is not None:
            own_BC = functional.one_hot(labels_B, self.classes).to(counts_BGC.dtype)
            counts_BGC = counts_BGC - own_BC[:, None] * is_present_BG[..., None]
            totals_BC = totals_BC - own_BC * is_present_BG.sum(dim=1, keepdim=True)
        # One more of each n-gram in each class: p > 0.
        log_BGC = (counts_BGC + 1).to(self.weights_FC.dtype).log()
        log_BGC = log_BGC - (totals_BC + len(self.counts_FC)).to(log_BGC.dtype).log()[:, None]
        ratios_BGC = log_BGC - log_BGC.mean(dim=-1, keepdim=True)
        return ratios_BGC.masked_fill(~is_present_BG[..., None], 0.0)

    def _rows(self, tokens_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the rows of each text's n-grams in the tables, (B, orders x L), each once, else -1; and their places.

        An n-gram's place is that of its first occurrence, where all orders' places lie one order after another.
        """
        keys = [ngram_keys(tokens_BL, order, self.base, self.num_special) for order in self.orders]
        keys_BG = torch.cat(keys, dim=1)
        rows_BG = table_rows(keys_BG, self.keys)
        # Row and place as one number: sorted by row, then by place.
        places_G = torch.arange(rows_BG.shape[1], device=rows_BG.device)
        sorted_BG = _sorted(rows_BG * MAX_PLACES + places_G)
        rows_BG, places_BG = sorted_BG.div(MAX_PLACES, rounding_mode="floor"), sorted_BG.remainder(MAX_PLACES)
        is_repeated_BG = functional.pad(rows_BG[:, 1:] == rows_BG[:, :-1], (1, 0))
        return rows_BG.masked_fill(is_repeated_BG, -1), places_BG


def _sorted(numbers_BG: Tensor) -> Tensor:
    """Returns each row in ascending order; NumPy takes an eighth of torch's time on a processor."""
    if numbers_BG.device.type != "cpu" or torch.compiler.is_exporting():
        return numbers_BG.sort(dim=1).values
    return torch.from_numpy(np.sort(numbers_BG.numpy(), axis=1))


def _scaled(ratios_BGC: Tensor, rows_BG: Tensor) -> Tensor:
    """Returns ratios divided by the root of the number of the text's n-grams."""
    numbers_B1 = (rows_BG >= 0).sum(dim=1, keepdim=True).clamp_min(1)
    return ratios_BGC / numbers_B1.to(ratios_BGC.dtype).sqrt()[..., None]


def _resize_to(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Makes room for the n-grams of a saved model before it is loaded."""
    assert isinstance(module, WideNGrams)
    saved = state.get(f"{prefix}counts_FC")
    if saved is not None and saved.shape[0] != len(module.counts_FC):
        module.resize(saved.shape[0])


def _batches(texts: TrainingTexts) -> Iterator[tuple[Tensor, Tensor, NDArray[np.int64]]]:
    """Yields tokens_BL, labels_B and the numbers of some rows at a time, which have similar lengths."""
    order = np.argsort(np.diff(texts.offsets), kind="stable")
    for rows_B in np.split(order, range(ROWS, len(order), ROWS)):
        texts_B = [torch.from_numpy(texts.tokens[texts.offsets[row] : texts.offsets[row + 1]]) for row in rows_B]
        yield pad_sequence(texts_B, batch_first=True), torch.from_numpy(texts.labels_N[rows_B]), rows_B


def fit_scale(sums_NC: NDArray[np.float64], labels_N: NDArray[np.int64], *, most: float) -> float:
    """Returns the s between 0 and `most` for which softmax(s sums) has the least cross entropy."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    own_N = np.take_along_axis(sums_NC, labels_N[:, None], axis=1)[:, 0]
    minimum = minimize_scalar(
        lambda s: float(np.mean(logsumexp(s * sums_NC, axis=1) - s * own_N)), bounds=(0.0, most), method="bounded"
    )
    return float(minimum.x)
