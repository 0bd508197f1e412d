"""Write a trained model as ONNX, with tokenizer, labels and an example that runs without torch.

usage: python -m sentattn.export run=DIR [format=onnx] [output=FOLDER]

  run      run directory, or `latest`; it may also stand without a key
  format   onnx (default)
  output   folder for the files; default onnx/ in the run directory. An earlier export there is replaced
  trust    trust=true loads a run with classes of your own: it can run any code that the run names

What is written: model.onnx (tokens and lengths to probabilities and attention; any number of texts, of any length up
to the run's data.max_length), tokenizer.json, labels.json, config.json (how to feed it) and predict.py, which needs
numpy, onnxruntime and tokenizers alone. The file is tried in ONNX Runtime before the folder appears: where it differs
from the model by more than 1e-4, nothing is written. Weights from token to token are not exported.

Needs: pip install "sentattn[onnx]"

Examples:
  python -m sentattn.export run=latest
  python -m sentattn.export outputs/demo/structured/20260101-120000-1a2b format=onnx output=served
  python served/predict.py "This movie is amazing" "A waste of time."
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from sentattn.config import command_line
from sentattn.errors import SettingError

KEYS = {"run": "str", "format": 'Literal["onnx"]', "output": "str", "trust": "bool"}
NEEDED = ("onnx", "onnxruntime", "onnxscript")
OLDEST_TORCH = (2, 8)
FOLDER = "onnx"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return command_line.run(_command, argv)


def _command(arguments: list[str]) -> None:
    arguments = [word if "=" in word or word.startswith("-") else f"run={word}" for word in arguments]
    given = command_line.raw_arguments(arguments, KEYS, required=["run"])
    _require_extra()

    from sentattn.run import find

    record = find(given["run"], trust=given.get("trust", False))
    folder = Path(given["output"]) if "output" in given else record.path / FOLDER
    classifier = record.classifier

    from sentattn.export.exporting import EXAMPLE, export

    exported = export(classifier, folder)
    shapes = ", ".join(f"{batch} x {length}" for batch, length in exported.compared.shapes)
    print(
        f"{exported.path}: {exported.path.stat().st_size / 1e6:.1f} MB, opset {exported.opset}; largest difference "
        f"from PyTorch {exported.compared.difference:.1e}, of texts x tokens {shapes}"
    )
    print(f'read a text with it: python {folder / EXAMPLE} "This movie is amazing"')


def _require_extra() -> None:
    """Refuses to start without the packages that exporting needs.

    Raises:
        SettingError: With those that are missing or too old.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if tuple(map(int, metadata.version("torch").split(".")[:2])) < OLDEST_TORCH:
        missing.append("torch {}.{} or newer".format(*OLDEST_TORCH))
    if missing:
        raise SettingError(f'format=onnx needs {", ".join(missing)}: type pip install "sentattn[onnx]".')


if __name__ == "__main__":
    sys.exit(main())
