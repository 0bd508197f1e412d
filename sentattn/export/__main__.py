"""Export a trained model as ONNX, with tokenizer, labels and a script that runs without torch.

usage: python -m sentattn.export run=DIR [format=onnx] [output=FOLDER]

  run      run directory, or `latest`; `run=` may be left out
  format   onnx (default)
  output   folder for the files; default onnx/ in the run directory. An earlier export is replaced
  trust    trust=true loads a run with classes of your own: it can run any code that the run names

Files: model.onnx (tokens and lengths to probabilities and attention, for any number of texts of any length up to the
run's data.max_length), tokenizer.json, labels.json, config.json (inputs and outputs) and predict.py, which needs only
numpy, onnxruntime and tokenizers. The graph is first compared with the model in ONNX Runtime: if they differ by more
than 1e-4, nothing is written. Token-to-token weights are not exported.

Needs: pip install "sentattn[onnx]"

Examples:
  python -m sentattn.export run=latest
  python -m sentattn.export outputs/demo/structured/20260101-120000-1a2b format=onnx output=served
  python served/predict.py "This movie is amazing" "A waste of time."
"""

from __future__ import annotations

import sys
from pathlib import Path

from sentattn.config import command_line
from sentattn.errors import require_packages

KEYS = {"run": "str", "format": 'Literal["onnx"]', "output": "str", "trust": "bool"}
FOLDER = "onnx"


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    arguments = command_line.run_first(arguments, KEYS)
    settings = command_line.raw_arguments(arguments, KEYS, required=["run"])
    require_packages("format", "format=onnx", ("onnx", "onnxruntime", "onnxscript"), "sentattn[onnx]")

    from sentattn.export.onnx_folder import GRAPH, OPSET, SCRIPT, write_export
    from sentattn.prediction.model import load

    run = load(settings["run"], trust=settings.get("trust", False))
    folder = Path(settings["output"]) if "output" in settings else run.path / FOLDER
    difference, compared = write_export(run.classifier, folder)
    shapes = ", ".join(f"{batch} x {length}" for batch, length in compared)
    size = f"{(folder / GRAPH).stat().st_size / 1e6:.1f} MB, opset {OPSET}"
    print(f"{folder / GRAPH}: {size}; largest difference from PyTorch {difference:.1e}, of texts x tokens {shapes}")
    print(f'read a text with it: python {folder / SCRIPT} "This movie is amazing"')


if __name__ == "__main__":
    sys.exit(main())
