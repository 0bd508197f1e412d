"""A trained model with its tokenizer and labels: texts to predictions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from sentattn import run as runs
from sentattn.build import build_model
from sentattn.config.groups import Choices
from sentattn.config.targets import check_targets
from sentattn.config.types import Count, Json, Kind, fault
from sentattn.data.batching import pad
from sentattn.data.pieces import PieceTokenizer, read_tokenizer
from sentattn.data.states import StateTable, StateTokenizer
from sentattn.data.tokenizer import RULES, UNKNOWN_ID, Clip, Encoded, Tokenizer
from sentattn.errors import MALFORMED, DataError, Fault, RunError, SettingError, UserError, first_line
from sentattn.models.classifier import TextClassifier
from sentattn.models.states import States
from sentattn.models.wide import WideAndDeep
from sentattn.prediction.frames import Columns, as_texts, prediction_columns, prediction_values, read_texts
from sentattn.prediction.prediction import OPTIONS, TIE, Prediction, Predictions, TokenWeights
from sentattn.run import LABELS_FILE, MODEL_FOLDER, WEIGHTS_FILE, Run

MODEL_CONFIG_FILE, TOKENIZER_FILE = "config.yaml", "tokenizer.json"
ENCODER_ENTRY = "encoder"
"""Key of a pretrained encoder's hash in the settings of a model, and the folder of its files, if the model has them."""
TEXT_SETTINGS = ("tokenizer", "lowercase", "normalize", "max_length", "clip")
"""Settings of the data that determine how a text is tokenized; they are saved with the model."""
TEXT_OPTIONS: dict[str, Kind] = {"max_length": Count | None, "clip": Clip}
"""Those that its tokenizer's file does not hold, and their types."""

BATCH_SIZE, CHUNK_BATCHES = 64, 16
"""Texts in a batch, and batches that are sorted by length together."""


class Classifier:
    """Predicts labels with the model's attention; `config` are the settings that are stored next to the weights."""

    def __init__(self, *, model: TextClassifier, tokenizer: Tokenizer, labels: Sequence[str], config: Json) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.labels = tuple(labels)
        self.config = config

    def open(self, tokenizer: Tokenizer, states: StateTable | None) -> None:
        """Lets a model of states read those of a data set by the texts of its rows; other models read any text.

        Raises:
            DataError: If the data have no states, or states of another width.
        """
        if isinstance(self.model.embedding, States):
            self.model.embedding.open(states)
            self.tokenizer = tokenizer

    def save(self, folder: Path) -> None:
        """Writes the files of inference: weights, settings, tokenizer and labels. No pickle."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save(folder / TOKENIZER_FILE)
        (folder / LABELS_FILE).write_text(json.dumps(self.labels, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / MODEL_CONFIG_FILE).write_text(runs.yaml_text(self.config), encoding="utf-8")
        weights = {name: tensor.cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        runs.save_tensors(weights, folder / WEIGHTS_FILE)

    @classmethod
    def load(cls, folder: Path, *, trust: bool = False) -> Classifier:
        """Reads the files of `save`; runs no code that they name, except classes outside sentattn with `trust`.

        Raises:
            RunError: If a file is missing or damaged, or a pretrained encoder has changed since the training.
            SettingError: If the model has classes outside sentattn and `trust` is False.
        """
        config, labels, tokenizer, weights = read_files(folder)
        with _explained(folder):
            node = check_targets({"model": config["model"]}, Choices.of(), trust=trust)["model"]
            if (folder / ENCODER_ENTRY).is_dir():
                node["embedding"] |= {"name": str(folder / ENCODER_ENTRY), "revision": None}
            ids = {"num_embeddings": len(tokenizer), "num_special": tokenizer.num_special}
            model = build_model(node, **ids, classes=len(labels))
            if (before := config.get(ENCODER_ENTRY)) != (now := model.embedding.fingerprint):
                message = f"{folder} was trained on a pretrained encoder with the hash {before}; the files of"
                message = f"{message} model.embedding.name now have {now}: restore them."
                raise RunError(Fault("model.embedding.name", "conflict", message))
            model.load_state_dict(weights)
            if isinstance(model.embedding, States):
                tokenizer = StateTokenizer(max_length=tokenizer.max_length, clip=tokenizer.clip)
        return cls(model=model, tokenizer=tokenizer, labels=labels, config=config)

    def predict(self, texts: Iterable[object], **options: Any) -> Predictions:
        """Predicts texts as `stream` does, whose options it has; a missing value counts as a text without a token.

        Raises:
            DataError: If a value is a number, or a collection such as a list, a dictionary or bytes.
        """
        return Predictions(self.stream(as_texts(texts), **options))

    def attention(self, texts: Iterable[object]) -> list[TokenWeights]:
        """Returns for each text its L tokens and their weights, float32 (R, L) with a row for each of R hops."""
        hops = self.model.attention.hops
        return [
            TokenWeights(found.tokens, np.array(found.attention, dtype=np.float32).reshape(hops, len(found.tokens)))
            for found in self.stream(as_texts(texts))
        ]

    @torch.inference_mode()
    def embed(self, texts: Iterable[object]) -> NDArray[np.float32]:
        """Returns the vector of each text, (N, P): what the head reads; NaN where a text has no token."""
        encoded = self.tokenizer.encode(list(as_texts(texts)))
        vectors_NP = np.full((len(encoded), self.model.pooling.out_dim), np.nan, dtype=np.float32)
        device = next(self.model.parameters()).device
        for rows in batches(encoded, BATCH_SIZE):
            tokens_BL, mask_BL = pad([encoded[i].ids for i in rows])
            attended = self.model(tokens_BL.to(device), mask_BL.to(device)).attended
            vectors_NP[rows] = self.model.pooling(attended.values_BRD).float().cpu().numpy()
        return vectors_NP

    def explain(self, text: str, *, pairs: bool = True) -> Prediction:
        """Predicts one text, with token-to-token weights where the model has them.

        Raises:
            DataError: If the text holds no token.
        """
        [prediction] = self.stream([text], pairs=pairs)
        if not prediction.tokens:
            raise DataError(Fault("text", "missing", f"The text holds no word or sign to read: {text[:60]!r}."))
        return prediction

    def stream(
        self,
        texts: Iterable[str],
        *,
        batch_size: int = BATCH_SIZE,
        pairs: bool = False,
        top: int | None = None,
        threshold: float | None = None,
        device: str | None = None,
    ) -> Iterator[Prediction]:
        """Predicts texts in their order, with only a few batches in memory; one without a token is empty.

        With `pairs`, which grow with the square of the length, a batch is one text. The other options are those of
        `LoadedRun.predict`.

        Raises:
            SettingError: If an option has another type or range, or there is no such device.
        """
        given = {"top": top, "threshold": threshold, "device": device}
        wrong = [fault(key, OPTIONS[key], value) for key, value in given.items() if value is not None]
        if device == "cuda" and not torch.cuda.is_available():
            message = "device=cuda: torch finds no NVIDIA GPU here; type device=cpu, or leave it out."
            wrong.append(Fault("device", "resources", message))
        if faults := [fault for fault in wrong if fault]:
            raise SettingError(*faults)
        if device is not None:
            self.model.to("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
        source = iter(texts)
        size, count = (1, 1) if pairs else (batch_size, CHUNK_BATCHES)
        while chunk := list(islice(source, size * count)):
            encoded = self.tokenizer.encode(chunk)
            predictions = {i: Prediction.empty(text) for i, text in enumerate(chunk) if not len(encoded[i].ids)}
            for rows in batches(encoded, size):
                batch = self._predict_batch([chunk[i] for i in rows], [encoded[i] for i in rows], pairs)
                predictions.update(zip(rows, batch, strict=True))
            yield from (predictions[i].limited(top, threshold) for i in range(len(chunk)))

    @torch.inference_mode()
    def _predict_batch(self, texts: list[str], encoded: list[Encoded], pairs: bool) -> Iterator[Prediction]:
        tokens_BL, mask_BL = pad([encoding.ids for encoding in encoded])
        device = next(self.model.parameters()).device
        output = self.model(tokens_BL.to(device), mask_BL.to(device), pairs=pairs)
        probabilities_BC = output.logits_BC.float().softmax(dim=-1).cpu().tolist()
        parts: list[tuple[str, Tensor]] = []
        ngram_weights_BL: Tensor | None = None
        if output.wide is not None and isinstance(self.model, WideAndDeep):
            shares = (self.model.deep_share, self.model.wide_share)
            logits = zip(self.model.part_logits(output).items(), shares, strict=False)
            parts = [(part, (share * logits_BC).float().cpu()) for (part, logits_BC), share in logits]
            attention_BOL = self.model.wide.attention(output.states_BLD, mask_BL.to(device))
            if attention_BOL is not None:
                counts_BOL, _ = self.model.ngram_terms(output.wide.terms, attention_BOL)
                ngram_weights_BL = token_rows(self.model, counts_BOL, mask_BL.to(device)).mean(dim=1).cpu()
        weights_BRL, pairs_BHLL = output.attended.weights_BRL.cpu(), output.attended.pairs_BHLL
        for row, (text, encoding, probabilities) in enumerate(zip(texts, encoded, probabilities_BC, strict=True)):
            length = len(encoding.ids)
            yield Prediction(
                text=text,
                label=self.labels[probabilities.index(max(probabilities))],
                probabilities=dict(zip(self.labels, probabilities, strict=True)),
                tokens=encoding.tokens,
                spans=encoding.spans,
                attention=weights_BRL[row, :, :length].tolist(),
                pairs=None if pairs_BHLL is None else pairs_BHLL[row, :, :length, :length].tolist(),
                unknown=np.flatnonzero(encoding.ids == UNKNOWN_ID).tolist(),
                parts={part: dict(zip(self.labels, logits_BC[row].tolist(), strict=True)) for part, logits_BC in parts},
                ngram_weights=None if ngram_weights_BL is None else ngram_weights_BL[row, :length].tolist(),
                are_pieces=isinstance(self.tokenizer, PieceTokenizer),
            )


def batches(encoded: Sequence[Encoded], size: int) -> Iterator[list[int]]:
    """Yields the indices of texts that have tokens, in batches of texts of similar length."""
    lengths = [len(encoding.ids) for encoding in encoded]
    order = sorted(filter(lengths.__getitem__, range(len(encoded))), key=lengths.__getitem__)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def token_rows(model: WideAndDeep, counts_BOL: Tensor, mask_BL: Tensor) -> Tensor:
    """Returns the weights of tokens that follow from how much n-grams count, (B, orders, L).

    The share of an n-gram is spread evenly over its tokens at its first occurrence, which is where the wide part reads
    it (`WideTerms.places_BG`) and where pages show it. So a token has the weights of all n-grams that it is in, and a
    row sums to 1. A row whose n-grams all have the same weight, or which has none, ranks nothing: it is even.
    """
    least_BO1 = counts_BOL.masked_fill(counts_BOL == 0, torch.inf).amin(dim=2, keepdim=True)
    is_tie_BO1 = counts_BOL.amax(dim=2, keepdim=True) <= least_BO1 * (1 + TIE)
    even_B1L = (mask_BL / mask_BL.sum(dim=1, keepdim=True))[:, None].to(counts_BOL.dtype)
    return torch.where(is_tie_BO1, even_B1L, model.spread_over_tokens(ngram_shares(counts_BOL)))


def ngram_shares(counts_BOL: Tensor) -> Tensor:
    """Returns how much each n-gram counts among those of its length, (B, orders, L); 0 where there is none."""
    return counts_BOL / counts_BOL.sum(dim=2, keepdim=True).clamp_min(torch.finfo(counts_BOL.dtype).tiny)


class LoadedRun(Run):
    """A run whose model reads texts."""

    @cached_property
    def classifier(self) -> Classifier:
        """The trained model with its tokenizer and labels; a `RunError` if the run has none."""
        return Classifier.load(self.path / MODEL_FOLDER, trust=self.trust)

    def predict(
        self,
        texts: Any,
        *,
        text: Columns | None = None,
        batch_size: int = BATCH_SIZE,
        pairs: bool = False,
        top: int | None = None,
        threshold: float | None = None,
        device: Literal["auto", "cpu", "cuda"] | None = None,
    ) -> Any:
        """Predicts texts: a data frame in, a data frame out; else labels, probabilities, tokens and attention.

        In a notebook, a list of predictions is shown as shaded texts.

        Args:
            texts: One text, a list or series of texts, or a data frame of pandas or dictionary of columns, with a
                column of texts. A missing value and a text without a word have an empty prediction, whose label is
                None. Frames of polars and pyarrow and data sets of Hugging Face become frames of pandas.
            text: The data frame's column of texts, or several, which are joined; None for those of the table that the
                run was trained on, or `text`.
            batch_size: Texts in a batch.
            pairs: Whether to return token-to-token weights too, where the model has them; a data frame has no place
                for them.
            top: Most probable classes that are returned; None for all classes. In a data frame they are the columns
                `top_1`, `top_1_probability` and so on.
            threshold: Probability below which the label is None; None for no threshold.
            device: Where the model computes from now on: `cpu`, `cuda`, or `auto` for a GPU if there is one; None for
                where it is, at first the CPU.

        Returns:
            `Predictions`, as `Classifier.predict` returns them. Of a data frame: a new one of its type with its rows
            and index, its columns, `label` and `probability_CLASS` for each class, missing values where there is no
            text. A new column begins with `predicted_` where the frame has one of that name.

        Raises:
            DataError: If the data frame has no such column, or a value is a list, a dictionary or bytes.
            RunError: If the run has no model.
            SettingError: If an option has another type or range, or there is no such device.
        """
        values, frame = self._texts(texts, text)
        options: Json = {"batch_size": batch_size, "top": top, "threshold": threshold, "device": device}
        if frame is None:
            return self.classifier.predict(values, pairs=pairs, **options)
        labels, stream = self.classifier.labels, self.classifier.stream(as_texts(values), **options)
        rows = [prediction_values(prediction, labels, top) for prediction in stream]
        columns = {name: [row[i] for row in rows] for i, name in enumerate(prediction_columns(labels, frame, top))}
        if isinstance(frame, Mapping):
            return {**frame, **columns}
        import pandas as pd

        return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)

    def attention(self, texts: Any, *, text: Columns | None = None) -> list[TokenWeights]:
        """Returns the attention to each text as arrays; see `Classifier.attention`. The arguments are `predict`'s."""
        return self.classifier.attention(self._texts(texts, text)[0])

    def embed(self, texts: Any, *, text: Columns | None = None) -> NDArray[np.float32]:
        """Returns vectors of texts; see `Classifier.embed`. The arguments are `predict`'s."""
        return self.classifier.embed(self._texts(texts, text)[0])

    def _texts(self, source: Any, text: Columns | None) -> tuple[Iterable[object], Any]:
        """Returns the texts of a source, and the data frame, if it is one."""
        return read_texts(source, text=text, default=self.settings.get("data", {}).get("text") or "text")

    def explain(self, text: str) -> Prediction:
        """Predicts one text; see `Classifier.explain`. A notebook shows it shaded by each hop."""
        return self.classifier.explain(text)


def load(path: str | os.PathLike[str], *, trust: bool = False) -> LoadedRun:
    """Opens a run directory to predict with its model; see `sentattn.load`."""
    return LoadedRun(runs.load(path).path, trust=trust)


def read_files(folder: Path) -> tuple[Json, list[str], Tokenizer, dict[str, Tensor]]:
    """Returns settings, labels, tokenizer and weights of a trained model; no code that the files name is run.

    Raises:
        RunError: If a file is missing or damaged.
    """
    for name in (WEIGHTS_FILE, MODEL_CONFIG_FILE, TOKENIZER_FILE, LABELS_FILE):
        if not (folder / name).is_file():
            message = f"{folder} holds no trained model: {name} is missing. Give the directory of a finished run."
            raise RunError(Fault("run", "not_found", message))
    with _explained(folder):
        config = runs.take_format(
            folder / MODEL_CONFIG_FILE, yaml.safe_load((folder / MODEL_CONFIG_FILE).read_text(encoding="utf-8"))
        )
        labels = json.loads((folder / LABELS_FILE).read_text(encoding="utf-8"))
        text, file = config["text"], folder / TOKENIZER_FILE
        rules, options = text.get("tokenizer", "words"), {"max_length": text["max_length"], "clip": text["clip"]}
        wrong = [fault(f"text.{key}", kind, options[key]) for key, kind in TEXT_OPTIONS.items()]
        if faults := [found for found in (fault(LABELS_FILE, list[str], labels), *wrong) if found]:
            raise SettingError(*faults)
        try:
            if rules in RULES:
                tokenizer = Tokenizer.load(file, rules=rules, **options)
            else:
                tokenizer = read_tokenizer(str(file), **options)
        except DataError as error:  # of a setting that the user has not typed here
            raise ValueError(error) from error
        return config, labels, tokenizer, load_tensors((folder / WEIGHTS_FILE).read_bytes())


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turns the errors of reading a model in the block into errors that name its folder."""
    try:
        yield
    except SettingError as error:
        faults = (replace(fault, message=f"{folder / MODEL_CONFIG_FILE}: {fault}") for fault in error.faults)
        raise SettingError(*faults) from error
    except UserError:
        raise
    except (*MALFORMED, RuntimeError, yaml.YAMLError, SafetensorError) as error:
        message = f"The model in {folder} cannot be read: {first_line(error)}."
        raise RunError(Fault("run", "damaged", message)) from error
