"""The folder of an export: its files, the verification of the graph, and the replacement of an earlier export."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sentattn.data.tokenizer import spacy_version
from sentattn.errors import Fault, RunError
from sentattn.export.onnx_graph import OPSET, OnnxClassifier, write_graph
from sentattn.models.classifier import TextClassifier
from sentattn.prediction.model import Classifier

GRAPH, TOKENIZER, LABELS, CONFIG, SCRIPT = "model.onnx", "tokenizer.json", "labels.json", "config.json", "predict.py"
FILES = (GRAPH, TOKENIZER, LABELS, CONFIG, SCRIPT)
VERSION_KEY = "sentattn"
"""Key of `config.json` that identifies an export: the version that wrote it."""
TOLERANCE = 1e-4
UNBOUNDED = 512
"""Length of the longest text compared if the model has no maximal length."""


class Verification(NamedTuple):
    """The largest difference of a probability or weight, and the shapes (batch, length) of the inputs compared."""

    difference: float
    shapes: list[tuple[int, int]]


def write_export(classifier: Classifier, folder: Path) -> Verification:
    """Writes a classifier as ONNX with its tokenizer, its labels and a script, and verifies it in ONNX Runtime.

    Raises:
        RunError: If the folder holds other files, the model cannot be exported, or the outputs of the graph differ.
    """
    require_replaceable(folder)
    longest = classifier.config["text"]["max_length"]
    with replacement(folder) as new:
        write_graph(classifier.model, new / GRAPH, max_length=longest)
        size = len(classifier.tokenizer)
        verification = verify(new / GRAPH, classifier.model, num_embeddings=size, max_length=longest)
        classifier.tokenizer.save(new / TOKENIZER)
        for name, content in {LABELS: classifier.labels, CONFIG: _description(classifier, verification)}.items():
            (new / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        shutil.copyfile(Path(__file__).with_name(SCRIPT), new / SCRIPT)
    return verification


def _description(classifier: Classifier, verification: Verification) -> dict[str, Any]:
    """Returns the content of `config.json`: how to encode texts and to read inputs and outputs of the graph."""
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
        "normalize": text.get("normalize"),
        "tokenizer": rules,
        "spacy": spacy_version() if rules == "spacy" else None,
        "compared": {"largest_difference": verification.difference, "shapes": verification.shapes},
    }


def require_replaceable(folder: Path) -> None:
    """Refuses a folder that holds anything but an earlier export.

    Raises:
        RunError: With the name of another file in the folder.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(Fault("output", "conflict", f"output={folder} is a file; name a folder."))
    # Programs that import predict.py write __pycache__.
    names = sorted(entry.name for entry in folder.iterdir() if entry.name != "__pycache__")
    others = [name for name in names if name not in FILES]
    try:
        is_export = VERSION_KEY in json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        is_export = False
    if names and (others or not is_export):
        message = f"output={folder} must be an earlier export or a new folder, got one with {(others or names)[0]}."
        raise RunError(Fault("output", "conflict", message))


@contextmanager
def replacement(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that replaces `folder` at the end, or is removed after an error.

    Raises:
        RunError: If it cannot be written.
    """
    target = folder.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as temporary:
            new, old = Path(temporary, "new"), Path(temporary, "old")
            new.mkdir()
            yield new
            if target.exists():
                target.rename(old)
            try:
                new.rename(target)
            finally:
                if old.exists() and not target.exists():
                    old.rename(target)
    except OSError as error:
        message = f"output={folder} cannot be written ({error.strerror or error}); name another folder."
        raise RunError(Fault("output", "unwritable", message)) from error


def verify(path: Path, model: TextClassifier, *, num_embeddings: int, max_length: int | None) -> Verification:
    """Runs an ONNX file and its model, on the CPU and in evaluation mode, on the same random ids.

    Raises:
        RunError: If ONNX Runtime cannot run the file, or they differ by more than 1e-4.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.intra_op_num_threads = torch.get_num_threads()
    reference = OnnxClassifier(model).eval()
    worst, shapes = 0.0, []
    session: Any = None
    for tokens_BL, lengths_B in _inputs(num_embeddings, max_length):
        try:
            session = session or onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            outputs = session.run(None, {"tokens": tokens_BL, "lengths": lengths_B})
        except Exception as error:  # ONNX Runtime's errors have no common class
            message = f"ONNX Runtime cannot run the exported {model.name}: {str(error).splitlines()[0]}"
            raise RunError(Fault("format", "failed", message)) from error
        with torch.inference_mode():
            expected = reference(torch.from_numpy(tokens_BL), torch.from_numpy(lengths_B))
        worst = max(worst, *(_difference(a, b.numpy()) for a, b in zip(outputs, expected, strict=True)))
        shapes.append((tokens_BL.shape[0], tokens_BL.shape[1]))
    if worst > TOLERANCE:
        message = f"The exported {model.name} differs from the model by {worst:.1e}, more than {TOLERANCE:.0e}; "
        raise RunError(Fault("format", "failed", message + "nothing was written."))
    return Verification(worst, shapes)


def _inputs(num_embeddings: int, max_length: int | None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yields batches of ids with their lengths: one token, two, some with padding, the longest."""
    longest = max_length or UNBOUNDED
    random = np.random.default_rng(0)
    for lengths in dict.fromkeys(tuple(min(n, longest) for n in row) for row in ((1,), (2,), (7, 1, 4), (longest,))):
        lengths_B = np.array(lengths, dtype=np.int64)
        # A Zipf distribution, frequent words first, so that some n-grams are in the vocabulary.
        ids_BL = np.floor(num_embeddings ** random.random((len(lengths), lengths_B.max()))).astype(np.int64)
        yield np.where(np.arange(lengths_B.max()) < lengths_B[:, None], ids_BL, 0), lengths_B


def _difference(values: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Returns the largest difference; infinity if shapes differ or a value is not finite."""
    if values.shape != expected.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(np.abs(values - expected), nan=np.inf, posinf=np.inf).max())
