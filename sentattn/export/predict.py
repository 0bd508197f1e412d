"""Label texts with an exported model. Needs numpy, onnxruntime and tokenizers (spaCy too where it was trained with it).

usage: python predict.py [--json] "This movie is amazing" ["Another text" ...]

Prints of each text its label, the probability of each class, and how much each token was attended to, a column
for each hop; with --json all of it, one object a line. To be imported too: Model(folder).predict(texts).
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

BATCH = 8
PAD = 0
LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)

Span = tuple[int, int]


class Model:
    """An exported model with its tokenizer and labels.

    Args:
        folder: The folder of the export.

    Attributes:
        config: What stands in config.json.
        labels: Names of the classes, by index.
    """

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.labels: list[str] = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])

    def predict(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Returns for each text its label, probabilities, tokens, spans and attention, a row of weights a hop.

        Raises:
            ValueError: If a text holds no word or sign, or is not valid Unicode.
        """
        read = [self._read(text) for text in texts]
        found: dict[int, dict[str, Any]] = {}
        order = sorted(range(len(texts)), key=lambda i: len(read[i][0]))  # like lengths together: little padding
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            results = self._run([read[i][0] for i in chosen])
            for i, (probabilities, attention) in zip(chosen, results, strict=True):
                spans = read[i][1]
                found[i] = {
                    "text": texts[i],
                    "label": self.labels[probabilities.index(max(probabilities))],
                    "probabilities": dict(zip(self.labels, probabilities, strict=True)),
                    "tokens": [texts[i][first:end] for first, end in spans],
                    "spans": spans,
                    "attention": attention,
                }
        return [found[i] for i in range(len(texts))]

    def _read(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of the tokens that the model reads, and where they stand in the text."""
        text.encode()  # half a character, as a command line makes of bytes that are not UTF-8, is a ValueError
        if self.config["tokenizer"] == "spacy":
            spans = spacy_spans(text, self.config["spacy"])
            lines = "\n".join(text[start:end] for start, end in spans)
            ids = self._tokenizer.encode(lines, add_special_tokens=False).ids
        else:
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
            ids, spans = encoding.ids, encoding.offsets
        if not ids:
            raise ValueError(f"This text holds no word or sign to read: {text!r}.")
        kept = kept_positions(len(ids), self.config["max_length"], self.config["clip"])
        return [ids[i] for i in kept], [spans[i] for i in kept]

    def _run(self, rows: Sequence[Sequence[int]]) -> Iterator[tuple[list[float], list[list[float]]]]:
        """Pads rows of ids to one batch; yields each one's probabilities and its attention without the padding."""
        lengths = np.array([len(ids) for ids in rows], dtype=np.int64)
        tokens = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
        for row, ids in enumerate(rows):
            tokens[row, : len(ids)] = ids
        probabilities, attention = self._session.run(
            ["probabilities", "attention"], {"tokens": tokens, "lengths": lengths}
        )
        for row, length in enumerate(lengths):
            yield probabilities[row].tolist(), attention[row, :, :length].tolist()


def kept_positions(count: int, max_length: int | None, clip: str) -> list[int]:
    """Returns which of a text's tokens are read: all, or of a longer text its head, its tail or half of both."""
    if max_length is None or count <= max_length:
        return list(range(count))
    head = {"head": max_length, "tail": 0, "both": (max_length + 1) // 2}[clip]
    return [*range(head), *range(count - (max_length - head), count)]


def spacy_spans(text: str, version: str) -> list[Span]:
    """Returns where spaCy's words stand, for a model that was trained on these; no model of spaCy's is needed.

    Raises:
        ImportError: If spaCy is not installed; the sentence names the version that the model was exported with.
    """
    blanked = LINE_BREAK.sub(lambda match: " " * len(match[0]), text)
    return [(word.idx, word.idx + len(word)) for word in english(version)(blanked) if not word.is_space]


@functools.cache
def english(version: str) -> Any:
    """Returns spaCy's rules for English."""
    try:
        import spacy
    except ImportError as error:
        raise ImportError(f"This model reads spaCy's words: type pip install spacy=={version}.") from error
    return spacy.blank("en").tokenizer


def lines(prediction: dict[str, Any]) -> Iterator[str]:
    """Yields a prediction as lines of text."""
    yield f"{prediction['label']}: {prediction['text']}"
    for name, share in prediction["probabilities"].items():
        yield f"  {share:6.1%}  {name}"
    width = max(map(len, prediction["tokens"]))
    for token, *weights in zip(prediction["tokens"], *prediction["attention"], strict=True):
        yield f"    {token:<{width}}  " + "  ".join(f"{weight:.3f}" for weight in weights)


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    texts = [word for word in arguments if word != "--json"]
    if not texts or {"-h", "--help"} & {*texts}:
        print((__doc__ or "").strip())
        return 0 if texts else 2
    try:
        predictions = Model(Path(__file__).parent).predict(texts)
    except (ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for prediction in predictions:
        shown = [json.dumps(prediction, ensure_ascii=False)] if "--json" in arguments else lines(prediction)
        print(*shown, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
