"""A trained classifier to a folder that runs without torch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from sentattn import __version__
from sentattn.data import spacy_tokenizer
from sentattn.export.comparison import Compared, compare
from sentattn.export.folder import MARK, appearing, require_replaceable
from sentattn.export.graph import write_graph
from sentattn.export.operators import OPSET
from sentattn.inference import Classifier

GRAPH, TOKENIZER, LABELS, CONFIG, EXAMPLE = "model.onnx", "tokenizer.json", "labels.json", "config.json", "predict.py"
FILES = (GRAPH, TOKENIZER, LABELS, CONFIG, EXAMPLE)


class Exported(NamedTuple):
    """What was written.

    Attributes:
        path: The ONNX file.
        opset: Version of ONNX's operators.
        compared: How far it is from the model.
    """

    path: Path
    opset: int
    compared: Compared


def export(classifier: Classifier, folder: Path) -> Exported:
    """Writes a classifier as ONNX, with its tokenizer, its labels and an example, and tries it in ONNX Runtime.

    Args:
        classifier: The trained model.
        folder: Where the files are to stand; an earlier export there is replaced.

    Raises:
        RunError: If the folder holds other things, or the model cannot be exported or comes out different.
    """
    require_replaceable(folder, CONFIG, FILES)
    text = classifier.config["text"]
    longest = text["max_length"]
    with appearing(folder) as new:
        write_graph(classifier.model, new / GRAPH, max_length=longest)
        compared = compare(new / GRAPH, classifier.model, num_embeddings=len(classifier.tokenizer), max_length=longest)
        classifier.tokenizer.save(new / TOKENIZER)
        _write_json(new / LABELS, classifier.labels)
        _write_json(new / CONFIG, _described(classifier, compared))
        shutil.copyfile(Path(__file__).with_name(EXAMPLE), new / EXAMPLE)
    return Exported(folder / GRAPH, OPSET, compared)


def _described(classifier: Classifier, compared: Compared) -> dict[str, Any]:
    """All that a program has to know to feed the graph and to read what comes out."""
    text = classifier.config["text"]
    rules = text.get("tokenizer", "words")
    length, hops = "length" if text["max_length"] != 1 else 1, classifier.model.attention.hops
    return {
        MARK: __version__,
        "model": classifier.model.name,
        "opset": OPSET,
        "inputs": {
            "tokens": {"dtype": "int64", "shape": ["batch", length], "is": "ids, 0 behind the end of a text"},
            "lengths": {"dtype": "int64", "shape": ["batch"], "is": "number of tokens of each text, 1 or more"},
        },
        "outputs": {
            "probabilities": {"dtype": "float32", "shape": ["batch", len(classifier.labels)], "is": "in class order"},
            "attention": {"dtype": "float32", "shape": ["batch", hops, length], "is": "a row of weights for each hop"},
        },
        "classes": list(classifier.labels),
        "max_length": text["max_length"],
        "clip": text["clip"],
        "lowercase": text["lowercase"],
        "tokenizer": rules,
        "spacy": spacy_tokenizer.version() if rules == "spacy" else None,
        "compared": {"largest_difference": compared.difference, "shapes": compared.shapes},
    }


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
