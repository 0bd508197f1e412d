"""The folder of an export: what is in it, and how it replaces an earlier one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from sentattn.data.text import spacy_version
from sentattn.errors import Fault, RunError
from sentattn.export.onnx_graph import write_graph
from sentattn.export.operators import OPSET
from sentattn.export.verification import Verification, verify
from sentattn.inference import Classifier

GRAPH, TOKENIZER, LABELS, CONFIG, SCRIPT = "model.onnx", "tokenizer.json", "labels.json", "config.json", "predict.py"
FILES = (GRAPH, TOKENIZER, LABELS, CONFIG, SCRIPT)
VERSION_KEY = "sentattn"
"""Key of `config.json` by which an export is known: the version that wrote it."""


class Export(NamedTuple):
    """A written export.

    Attributes:
        path: The ONNX file.
        opset: Version of ONNX's operators.
        verification: How far the graph is from the model.
    """

    path: Path
    opset: int
    verification: Verification


def write_export(classifier: Classifier, folder: Path) -> Export:
    """Writes a classifier as ONNX with its tokenizer, its labels and a script, and verifies it in ONNX Runtime.

    Args:
        classifier: The trained model.
        folder: Where to write; an earlier export there is replaced.

    Raises:
        RunError: If the folder holds other files, or the model cannot be exported or its graph gives other outputs.
    """
    require_replaceable(folder)
    longest = classifier.config["text"]["max_length"]
    with replacement(folder) as new:
        write_graph(classifier.model, new / GRAPH, max_length=longest)
        verification = verify(
            new / GRAPH, classifier.model, num_embeddings=len(classifier.tokenizer), max_length=longest
        )
        classifier.tokenizer.save(new / TOKENIZER)
        _write_json(new / LABELS, classifier.labels)
        _write_json(new / CONFIG, _description(classifier, verification))
        shutil.copyfile(Path(__file__).with_name(SCRIPT), new / SCRIPT)
    return Export(folder / GRAPH, OPSET, verification)


def _description(classifier: Classifier, verification: Verification) -> dict[str, Any]:
    """Returns all that a program needs to feed the graph and to read its outputs."""
    text = classifier.config["text"]
    rules = text.get("tokenizer", "words")
    length, hops = "length" if text["max_length"] != 1 else 1, classifier.model.attention.hops
    return {
        VERSION_KEY: version("sentattn"),
        "model": classifier.model.name,
        "opset": OPSET,
        "inputs": {
            "tokens": {"dtype": "int64", "shape": ["batch", length], "is": "ids, 0 after the end of a text"},
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
        "spacy": spacy_version() if rules == "spacy" else None,
        "compared": {"largest_difference": verification.difference, "shapes": verification.shapes},
    }


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def require_replaceable(folder: Path) -> None:
    """Refuses a folder that holds anything but an earlier export.

    Raises:
        RunError: With the first file that would be lost.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(Fault("output", "conflict", f"output={folder} is a file; name a folder."))
    # __pycache__ remains where a program has imported predict.py
    names = sorted(entry.name for entry in folder.iterdir() if entry.name != "__pycache__")
    others = [name for name in names if name not in FILES]
    if names and (others or not _is_export(folder / CONFIG)):
        message = f"output={folder} is no earlier export and {(others or names)[0]} would be lost; name another folder."
        raise RunError(Fault("output", "conflict", message))


def _is_export(config: Path) -> bool:
    try:
        return VERSION_KEY in json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


@contextmanager
def replacement(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that replaces `folder` at the end, or is removed after an error.

    Raises:
        RunError: If it cannot be written.
    """
    target = folder.resolve()
    new, old = (target.with_name(f".{target.name}.{os.getpid()}.{part}") for part in ("new", "old"))
    try:
        new.mkdir(parents=True)
        yield new
        if target.exists():
            target.rename(old)
        new.rename(target)
    except OSError as error:
        message = f"output={folder} cannot be written ({error.strerror or error}); name another folder."
        raise RunError(Fault("output", "unwritable", message)) from error
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
