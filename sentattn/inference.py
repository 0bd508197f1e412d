"""A trained model with its tokenizer and labels: texts to predictions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from sentattn.build import build_model
from sentattn.config.groups import Choices
from sentattn.config.targets import admit
from sentattn.data.batching import pad
from sentattn.data.text import Encoded, Tokenizer
from sentattn.errors import DataError, RunError, SettingError
from sentattn.insight.prediction import Prediction
from sentattn.models.classifier import TextClassifier

WEIGHTS, CONFIG, TOKENIZER, LABELS = "model.safetensors", "config.yaml", "tokenizer.json", "labels.json"
TEXT_SETTINGS = ("tokenizer", "lowercase", "max_length", "clip")
"""Settings of the data that say how a text is read; a model keeps them."""

CHUNK_BATCHES = 16


class Classifier:
    """Predicts labels and shows what the model attended to.

    Args:
        model: The trained model.
        tokenizer: Texts to ids, as in training.
        labels: Names of the classes, by index.
        config: The model's settings, as they are stored beside the weights.
    """

    def __init__(
        self, *, model: TextClassifier, tokenizer: Tokenizer, labels: Sequence[str], config: dict[str, Any]
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.labels = tuple(labels)
        self.config = config

    def save(self, folder: Path) -> None:
        """Writes all that inference needs: weights, settings, tokenizer and labels. No pickle."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save(folder / TOKENIZER)
        (folder / LABELS).write_text(json.dumps(self.labels, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / CONFIG).write_text(yaml.safe_dump(self.config, sort_keys=False), encoding="utf-8")
        weights = {name: tensor.cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        save_file(weights, folder / WEIGHTS)

    @classmethod
    def load(cls, folder: Path, *, trust: bool = False) -> Classifier:
        """Reads what `save` wrote; runs no code that is named there.

        Args:
            folder: The folder.
            trust: Whether the model may be of classes outside sentattn, whose code is then run.

        Raises:
            RunError: If a file is missing or damaged.
            SettingError: If the model is of a class outside sentattn, and there is no trust.
        """
        for name in (WEIGHTS, CONFIG, TOKENIZER, LABELS):
            if not (folder / name).is_file():
                raise RunError(
                    f"{folder} holds no trained model: {name} is missing. Give the directory of a finished run."
                )
        try:
            config = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
            labels = json.loads((folder / LABELS).read_text(encoding="utf-8"))
            text = config["text"]
            reading = {"max_length": text["max_length"], "clip": text["clip"], "rules": text.get("tokenizer", "words")}
            tokenizer = Tokenizer.load(folder / TOKENIZER, **reading)
            node = admit({"model": config["model"]}, Choices.of(), trust=trust)["model"]
            model = build_model(node, num_embeddings=len(tokenizer), classes=len(labels))
            model.load_state_dict(load_file(folder / WEIGHTS))
        except SettingError as error:
            raise SettingError(*(replace(one, message=f"{folder / CONFIG}: {one}") for one in error.faults)) from error
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, yaml.YAMLError, SafetensorError) as error:
            raise RunError(f"The model in {folder} cannot be read: {str(error).splitlines()[0]}") from error
        return cls(model=model, tokenizer=tokenizer, labels=labels, config=config)

    def predict(self, texts: Sequence[str], *, batch_size: int = 64, pairs: bool = False) -> list[Prediction]:
        """Predicts texts; see `stream`.

        Raises:
            DataError: If a text holds no word.
        """
        return list(self.stream(texts, batch_size=batch_size, pairs=pairs))

    def stream(self, texts: Iterable[str], *, batch_size: int = 64, pairs: bool = False) -> Iterator[Prediction]:
        """Predicts texts one after another, in their order, holding only a few batches at a time.

        Args:
            texts: What to read.
            batch_size: Texts read at once. With pairs, which grow with the square of the length, it is one at a time.
            pairs: Whether token-to-token weights are wanted too, where the model has them.

        Raises:
            DataError: If a text holds no word; the sentence counts texts from 1.
        """
        source = iter(texts)
        before = 0
        batch_size, batches = (1, 1) if pairs else (batch_size, CHUNK_BATCHES)
        while chunk := list(islice(source, batch_size * batches)):
            encoded = self.tokenizer.encode(chunk)
            for number, one in enumerate(encoded, start=before + 1):
                if not len(one.ids):
                    raise DataError(f"Text {number} holds no word or sign to read: {chunk[number - before - 1]!r}.")
            yield from self._predict_chunk(chunk, encoded, batch_size, pairs)
            before += len(chunk)

    def _predict_chunk(
        self, texts: list[str], encoded: list[Encoded], batch_size: int, pairs: bool
    ) -> list[Prediction]:
        """Predicts in batches of like lengths; gives back the order of the texts."""
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i].ids))
        predictions: dict[int, Prediction] = {}
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            for i, probabilities, attention, token_pairs in self._predict_batch(chosen, encoded, pairs):
                predictions[i] = Prediction(
                    text=texts[i],
                    label=self.labels[max(range(len(probabilities)), key=probabilities.__getitem__)],
                    probabilities=dict(zip(self.labels, probabilities, strict=True)),
                    tokens=encoded[i].tokens,
                    spans=encoded[i].spans,
                    attention=attention,
                    pairs=token_pairs,
                )
        return [predictions[i] for i in range(len(texts))]

    @torch.inference_mode()
    def _predict_batch(
        self, chosen: list[int], encoded: list[Encoded], pairs: bool
    ) -> Iterator[tuple[int, list[float], list[list[float]], list[list[list[float]]] | None]]:
        tokens_BL, mask_BL = pad([encoded[i].ids for i in chosen])
        device = next(self.model.parameters()).device
        classified = self.model(tokens_BL.to(device), mask_BL.to(device), pairs=pairs)
        probabilities_BC = classified.logits_BC.float().softmax(dim=-1).cpu().tolist()
        weights_BRL, pairs_BHLL = classified.attended.weights_BRL.cpu(), classified.attended.pairs_BHLL
        for row, i in enumerate(chosen):
            length = len(encoded[i].ids)
            maps = None if pairs_BHLL is None else pairs_BHLL[row, :, :length, :length].tolist()
            yield i, probabilities_BC[row], weights_BRL[row, :, :length].tolist(), maps
