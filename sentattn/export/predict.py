"""Label texts with an exported model. Needs numpy, onnxruntime and tokenizers.

usage: python predict.py "This movie is amazing" ["Another text" ...]

Prints the label of each text, the probabilities of up to ten classes, the tokens that are not in the vocabulary, and
the attention to each token, one column per hop. From Python: Model(folder).predict(texts), in which `unknown` lists the
indices of the tokens that are not in the vocabulary. Tokens are words, or the pieces of words that a pretrained encoder
reads, with its special tokens, whose spans are empty.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Regex, Tokenizer, normalizers

LINE_BREAKS = r"(?i)\s?(?:<br\s*/?>\s*)+"
"""What subword tokenizers read as one space."""

MAX_CLASSES = 10
"""Classes that are printed, the most probable ones."""

Span = tuple[int, int]


class Model:
    """The exported model of a folder, with its tokenizer, labels and config.json."""

    def __init__(self, folder: Path | str) -> None:
        folder = Path(folder)
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.labels: list[str] = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
        self._tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # those that a text happens to contain are text
        if self.config["tokenizer"] == "pieces":
            own = [] if self._tokenizer.normalizer is None else [self._tokenizer.normalizer]
            breaks = normalizers.Replace(Regex(LINE_BREAKS), " ")
            self._tokenizer.normalizer = normalizers.Sequence([breaks, *own])
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])

    def predict(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Returns label, probabilities, tokens, spans, unknown tokens and attention (hops, tokens) of each text.

        A text without a token has no label, and no probabilities.

        Raises:
            TypeError: If `texts` is a text, or one of them is none.
            ValueError: If a text is not valid Unicode.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("texts are a list of texts: predict([text])")
        return [self._predict(text) for text in texts]

    def _predict(self, text: str) -> dict[str, Any]:
        ids, tokens, spans = self._encode(text)
        prediction: dict[str, Any] = {
            "text": text,
            "label": None,
            "probabilities": {},
            "tokens": tokens,
            "spans": spans,
        }
        if not ids:
            return prediction | {"unknown": [], "attention": [[]]}
        inputs = {"tokens": np.array([ids], dtype=np.int64), "lengths": np.array([len(ids)], dtype=np.int64)}
        [probabilities], [weights] = self._session.run(["probabilities", "attention"], inputs)
        return prediction | {
            "label": self.labels[probabilities.argmax()],
            "probabilities": dict(zip(self.labels, probabilities.tolist(), strict=True)),
            "unknown": [index for index, number in enumerate(ids) if number == self.config["unknown"]],
            "attention": weights.tolist(),
        }

    def _encode(self, text: str) -> tuple[list[int], list[str], list[Span]]:
        """Returns ids of a text, clipped as in training, the tokens, and their spans in the text, in characters."""
        text.encode()  # a ValueError for lone surrogates, as in command lines that are not UTF-8
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        ids, spans = encoding.ids, encoding.offsets
        if self.config["tokenizer"] != "pieces":
            spans = with_marks(text, spans)
        if not ids:
            return [], [], []
        before, after = self.config["special_tokens"]["before"], self.config["special_tokens"]["after"]
        longest = self.config["max_length"]
        if longest is not None:
            longest -= len(before) + len(after)
        kept = kept_positions(len(ids), longest, self.config["clip"])
        special_ids, names = ([[token[key] for token in part] for part in (before, after)] for key in ("id", "token"))
        words = [text[spans[i][0] : spans[i][1]] for i in kept]
        empty: list[list[Span]] = [[(0, 0)] * len(before), [(len(text), len(text))] * len(after)]
        return (
            [*special_ids[0], *(ids[i] for i in kept), *special_ids[1]],
            [*names[0], *words, *names[1]],
            [*empty[0], *(spans[i] for i in kept), *empty[1]],
        )


def kept_positions(count: int, max_length: int | None, clip: str) -> list[int]:
    """Returns the indices of the tokens that are kept: all, or head, tail or half of each of a longer text."""
    if max_length is None or count <= max_length:
        return list(range(count))
    head = {"head": max_length, "tail": 0, "both": (max_length + 1) // 2}[clip]
    return [*range(head), *range(count - (max_length - head), count)]


def with_marks(text: str, spans: list[Span]) -> list[Span]:
    """Extends spans by the marks that normalization has composed with the last character of a token."""
    if unicodedata.is_normalized("NFC", text):
        return spans
    whole = []
    for (start, end), (following, _) in zip(spans, [*spans[1:], (len(text), 0)], strict=True):
        while end < following and not text[end].isspace() and text[end] != "<":
            end += 1
        whole.append((start, end))
    return whole


def lines(prediction: dict[str, Any]) -> Iterator[str]:
    """Yields a prediction as lines of text."""
    yield f"{prediction['label'] or 'no text'}: {prediction['text']}"
    shares = prediction["probabilities"].items()
    if len(shares) > MAX_CLASSES:
        shares = sorted(shares, key=lambda item: -item[1])[:MAX_CLASSES]
    for name, share in shares:
        yield f"  {share:6.1%}  {name}"
    tokens = prediction["tokens"]
    if unknown := [tokens[i] for i in prediction["unknown"]]:
        yield f"  {len(unknown)} of {len(tokens)} tokens are not in the vocabulary: {', '.join(unknown)}"
    width = max(map(len, tokens), default=0)
    for token, *weights in zip(tokens, *prediction["attention"], strict=True):
        yield f"    {token:<{width}}  " + "  ".join(f"{weight:.3f}" for weight in weights)


def main(texts: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    if not texts or {"-h", "--help"} & {*texts}:
        print((__doc__ or "").strip())
        return 0 if texts else 2
    try:
        predictions = Model(Path(__file__).parent).predict(texts)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for prediction in predictions:
        for line in lines(prediction):  # a terminal would execute other characters
            print("".join(sign if sign in "\t\n" or sign.isprintable() else "\ufffd" for sign in line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
