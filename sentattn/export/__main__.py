"""Export a trained model: as ONNX, or as a folder for the Hugging Face Hub, with a model card.

usage: python -m sentattn.export run=DIR [format=onnx] [output=FOLDER]
       python -m sentattn.export run=DIR format=hub [output=FOLDER] [weights=true] [encoder=USER/NAME]
                                 [compare=FOLDER] [push=USER/NAME] [private=true]

  run      run directory, or `latest`; `run=` may be left out
  format   onnx (default): a graph, and a script that labels texts without torch
           hub: the model as `sentattn.load` reads it, without pickle and paths of this machine, and a model card
  output   folder for the files; default onnx/ or hub/ in the run directory. An earlier export is replaced, but not a
           model card that was edited
  weights  true adds the files of a frozen pretrained encoder, of which the model has the name and a hash otherwise
  encoder  name on the Hub of a pretrained encoder that the run has as a folder of this machine
  compare  folder with runs of other settings: the tests of the declared pairs with this one become part of the card
  push     name on the Hub to upload the folder to; needs a token (type hf auth login, or set HF_TOKEN)
  private  true makes the repository on the Hub a private one
  trust    trust=true loads a run with classes of your own: it can run any code that the run names

ONNX: model.onnx (tokens and lengths to probabilities and attention, for any number of texts of any length up to the
run's data.max_length), tokenizer.json, labels.json, config.json (inputs and outputs) and predict.py, which needs only
numpy, onnxruntime and tokenizers. The graph is first compared with the model in ONNX Runtime: if they differ by more
than 1e-4, nothing is written. Token-to-token weights are not exported.

Needs: pip install "sentattn[onnx]" or "sentattn[hub]"

Examples:
  python -m sentattn.export run=latest
  python -m sentattn.export outputs/demo/structured/20260101-120000-1a2b format=onnx output=served
  python served/predict.py "This movie is amazing" "A waste of time."
  python -m sentattn.export run=latest format=hub push=user/name
  python -m sentattn.predict run=hf://user/name text="This movie is amazing"
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.config import command_line
from sentattn.config.types import Node, as_typed
from sentattn.errors import Fault, SettingError, require_packages
from sentattn.run import HUB as ON_HUB
from sentattn.run import require_hub_name

if TYPE_CHECKING:
    from sentattn.prediction.model import LoadedRun

ONNX, HUB = "onnx", "hub"
OF_HUB = {"weights": "bool", "encoder": "str", "compare": "str", "push": "str", "private": "bool"}
KEYS = {"run": "str", "format": f'Literal["{ONNX}", "{HUB}"]', "output": "str", "trust": "bool", **OF_HUB}


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    arguments = command_line.run_first(arguments, KEYS)
    settings = command_line.raw_arguments(arguments, KEYS, required=["run"])
    style = settings.get("format", ONNX)
    _check(settings, style)

    from sentattn.prediction.model import load

    run = load(settings["run"], trust=settings.get("trust", False))
    folder = Path(settings["output"]) if "output" in settings else run.path / style
    if style == HUB:
        _export_to_hub(run, folder, settings)
    else:
        _export_onnx(run, folder)


def _check(settings: Node, style: str) -> None:
    """Checks which settings go together, before anything is loaded; raises a `UserError` with all faults."""
    faults = []
    for key in (key for key in OF_HUB if key in settings):
        without_push = key == "private" and "push" not in settings
        if lacking := f"format={HUB}" if style != HUB else "push=USER/NAME" if without_push else "":
            message = f"{key}={as_typed(settings[key])} has no effect without {lacking}: leave it out, or add it."
            faults.append(Fault(key, "no_effect", message))
    if settings["run"].startswith(ON_HUB) and "output" not in settings:
        faults.append(Fault("output", "missing", f"run={settings['run']} needs a folder: type output=FOLDER."))
    if "compare" in settings and not Path(settings["compare"]).is_dir():
        faults.append(Fault("compare", "not_found", f"compare={settings['compare']} must be a folder with runs."))
    if faults:
        raise SettingError(*faults)
    for key in {"push", "encoder"} & settings.keys():
        require_hub_name(key, settings[key])
    packages = ["huggingface_hub"] if style == HUB else ["onnx", "onnxruntime", "onnxscript"]
    require_packages("format", f"format={style}", packages, f"sentattn[{style}]")


def _export_to_hub(run: LoadedRun, folder: Path, settings: Node) -> None:
    from sentattn.export.hub import upload, write_folder

    options = {key: settings[key] for key in ("weights", "encoder", "compare", "push") if key in settings}
    for note in write_folder(run, folder, **options):
        print(f"warning: {note}", file=sys.stderr)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB. Read README.md, the model card, before you share it.")
    if "push" in settings:
        print(upload(folder, settings["push"], private=settings.get("private", False)))
    address = f"hf://{settings['push']}" if "push" in settings else str(folder)
    print(f"load it: sentattn.load({address!r})")


def _export_onnx(run: LoadedRun, folder: Path) -> None:
    from sentattn.export.onnx_folder import GRAPH, OPSET, SCRIPT, write_export

    difference, compared = write_export(run.classifier, folder)
    shapes = ", ".join(f"{batch} x {length}" for batch, length in compared)
    size = f"{(folder / GRAPH).stat().st_size / 1e6:.1f} MB, opset {OPSET}"
    print(f"{folder / GRAPH}: {size}; largest difference from PyTorch {difference:.1e}, of texts x tokens {shapes}")
    print(f'read a text with it: python {folder / SCRIPT} "This movie is amazing"')


if __name__ == "__main__":
    sys.exit(main())
