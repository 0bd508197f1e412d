"""References: linear models over n-grams, fitted on the rows of a comparison and stored as runs."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sentattn.compare.comparison import Comparison
from sentattn.compare.reference_models import MIN_COUNT, REFERENCES
from sentattn.compare.runs import EvaluatedRun, read_runs
from sentattn.compare.texts import read_texts
from sentattn.config.compose import setting_hash
from sentattn.errors import Fault, RunError, UserError
from sentattn.metrics import classifier_metrics, correct
from sentattn.run import RESULT, Run, create

if TYPE_CHECKING:
    from sentattn.data.datamodule import TextData

PACKAGES = {"fasttext": ("fasttext", "fasttext-numpy2")}
"""The package that a reference needs, and how it is installed; scikit-learn by default."""
SKLEARN = ("sklearn", '"sentattn[report]"')


def add_references(names: Sequence[str], comparison: Comparison, folder: Path) -> Comparison:
    """Adds references to a comparison, and fits those that have no run yet on its training rows.

    Each is fitted on the training rows, with the strength or learning rate that is best on the validation rows. Its
    predictions are stored as a run, or several where the weights are drawn from a seed.

    Args:
        names: Of `REFERENCES`.
        comparison: Settings with the same rows.
        folder: Where runs are written, such as `outputs`.

    Raises:
        RunError: If the texts cannot be read again, or a package is missing.
    """
    for name in names:
        package, installed = PACKAGES.get(name, SKLEARN)
        if find_spec(package) is None:
            message = f"reference={name} needs {package}: pip install {installed}."
            raise RunError(Fault("reference", "package", message))
    first = comparison.settings[0].runs[0]
    data: TextData | None = None
    runs = {run.path.resolve(): run for run in comparison.runs}
    for name in names:
        files = (folder / comparison.data / name).glob(f"*/{RESULT}")
        paths = [path for path in (file.parent for file in files) if _fingerprint(Run(path)) == _fingerprint(first.run)]
        stored = _read(paths, comparison)
        known = [run.run for run in (*comparison.runs, *stored) if run.settings["model"]["name"] == name]
        if not any(_fingerprint(run) == _fingerprint(first.run) for run in known):
            data = data or read_texts(comparison)
            paths = _fit(name, data, comparison, folder)
            for path in paths:
                print(f"{name}: {path}")
            stored = _read(paths, comparison)
        runs |= {run.path.resolve(): run for run in stored}
    return replace(comparison, runs=list(runs.values()))


def _read(paths: Sequence[Path], comparison: Comparison) -> list[EvaluatedRun]:
    """Returns the references that were evaluated on the rows of a comparison; those that are damaged are left out."""
    with suppress(UserError):
        runs, _ = read_runs(paths, split=comparison.split)
        return [run for run in runs if run.rows.key == comparison.rows.key]
    return []


def _fingerprint(run: Run) -> str | None:
    """Hash of the training, validation and test rows of a run."""
    return run.result.get("data_fingerprint")


def _fit(name: str, data: TextData, comparison: Comparison, folder: Path) -> list[Path]:
    reference = REFERENCES[name]
    started = time.perf_counter()
    texts = {split: _words(data, split) for split in ("train", "val", "test")}
    labels = {split: data.split(split).labels for split in texts}
    fitting = reference.start(texts["train"], labels["train"], len(data.labels))
    models = {value: fitting.fit(value, 0) for value in reference.values}
    best = max(models, key=lambda value: correct(models[value](texts["val"]), labels["val"]).mean())
    seconds = time.perf_counter() - started
    paths = []
    for seed in range(reference.seeds):
        model = models[best] if seed == 0 else fitting.fit(best, seed)
        predictions = {split: (data.split(split), model(texts[split]).astype(np.float32)) for split in ("val", "test")}
        settings = {
            "model": {"name": name, "ngrams": reference.ngrams, "min_count": MIN_COUNT, reference.chosen: best},
            "data": comparison.settings[0].settings["data"],
            "seed": seed,
            "output_dir": str(folder),
        }
        paths.append(_write(settings, predictions, comparison, parameters=fitting.parameters, seconds=seconds))
    return paths


def _words(data: TextData, split: str) -> list[str]:
    """All tokens of each text as the models read them, with a space between two; nothing is clipped."""
    from sentattn.data.tokenizer import Tokenizer

    rows = data.split(split)
    tokenizer = Tokenizer(data.tokenizer.words, lowercase=data.lowercase, normalize=data.normalize, rules=data.rules)
    encoded = tokenizer.encode([rows.texts(i) for i in range(len(rows))])
    words = (" ".join(text.tokens) for text in encoded)
    if data.normalize:
        words = (unicodedata.normalize("NFC", text) for text in words)
    return [text.lower() if data.lowercase else text for text in words]


def _write(
    settings: Mapping[str, Any],
    predictions: Mapping[str, Any],
    comparison: Comparison,
    *,
    parameters: int,
    seconds: float,
) -> Path:
    """Writes predictions and metrics as the directory of a finished run."""
    run = create(settings)
    run.write_predictions(predictions)
    metrics = {
        f"{split}/{metric}": value
        for split, (rows, probabilities) in predictions.items()
        for metric, value in classifier_metrics(probabilities, rows.labels, ordered=comparison.ordered).items()
    }
    result = {
        "status": "finished",
        "setting": setting_hash(settings),
        "study": None,
        "model": settings["model"]["name"],
        "data": comparison.data,
        "seed": settings["seed"],
        "settings": settings,
        "deterministic": REFERENCES[settings["model"]["name"]].seeds == 1,
        "metrics": metrics,
        "parameters": {"total": parameters},
        "seconds": {"train": seconds, "total": seconds},
        "data_fingerprint": _fingerprint(comparison.settings[0].runs[0].run),
    }
    Run(run.path).write_result(json.loads(json.dumps(result)))
    return run.path
