"""Export a trained model: as ONNX, as a folder for the Hugging Face Hub, or for sentence-transformers.

usage: python -m sentattn.export run=DIR [format=onnx] [output=FOLDER]
       python -m sentattn.export run=DIR format=hub [output=FOLDER] [weights=true] [push=USER/NAME] [private=true]
       python -m sentattn.export run=DIR format=sentence-transformers [output=FOLDER]

  run      run directory, or `latest`; `run=` may be left out
  format   onnx (default): a graph, and a script that labels texts without torch
           hub: the model as `sentattn.load` reads it, without pickle and paths of this machine, and a model card
           sentence-transformers: encoder and attention of model=pretrained as a SentenceTransformer, without the head
  output   new folder for the files; default one named after the format in the run directory. One that exists is refused
  weights  true adds the files of a pretrained encoder, of which the model has the name and a hash otherwise
  push     name on the Hub to upload the folder to; needs a token (type hf auth login, or set HF_TOKEN)
  private  true makes the repository on the Hub a private one
  trust    trust=true loads a run with classes of your own: it can run any code that the run names

ONNX: model.onnx (tokens and lengths to probabilities and attention, for any number of texts of any length up to the
run's data.max_length), tokenizer.json, labels.json, config.json (inputs and outputs) and predict.py, which needs only
numpy, onnxruntime and tokenizers. The graph is first compared with the model in ONNX Runtime: if they differ by more
than 1e-4, nothing is written. Token-to-token weights are not exported.

Needs: pip install "sentattn[onnx]", "sentattn[hub]" or "sentattn[sentence-transformers]"

Examples:
  python -m sentattn.export run=latest
  python -m sentattn.export outputs/demo/structured/20260101-120000-1a2b format=onnx output=served
  python served/predict.py "This movie is amazing" "A waste of time."
  python -m sentattn.export run=latest format=hub push=user/name
  python -m sentattn.export run=latest format=sentence-transformers output=encoder
  python -m sentattn.predict run=hf://user/name text="This movie is amazing"
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sentattn.config import command_line
from sentattn.config.types import Node
from sentattn.errors import Fault, SettingError, require_packages
from sentattn.run import writing

ONNX, HUB, SENTENCES = "onnx", "hub", "sentence-transformers"
PACKAGES = {
    ONNX: ["onnx", "onnxruntime", "onnxscript"],
    HUB: ["huggingface_hub"],
    SENTENCES: ["sentence_transformers"],
}
ONLY_HUB = {"weights": "bool", "push": "str", "private": "bool"}
KEYS = {
    "run": "str",
    "format": f'Literal["{ONNX}", "{HUB}", "{SENTENCES}"]',
    "output": "str",
    "trust": "bool",
    **ONLY_HUB,
}


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
        from sentattn.export.hub import upload, write_folder

        push = settings.get("push")
        write_folder(run, folder, weights=settings.get("weights", False), address=push or "USER/NAME")
        print(f"{folder}: read README.md, the model card, before you share it")
        if push:
            print(upload(folder, push, private=settings.get("private", False)))
        print(f"load it: sentattn.load({f'hf://{push}' if push else str(folder)!r})")
    elif style == SENTENCES:
        from sentattn.export.sentences import write_sentence_transformer

        difference = write_sentence_transformer(run.classifier, folder)
        print(f"{folder}: largest difference of a vector {difference:.1e} of its length")
        print(f"load it: SentenceTransformer({str(folder)!r}, trust_remote_code=True)")
    else:
        from sentattn.export.onnx_folder import GRAPH, OPSET, SCRIPT, write_export

        difference = write_export(run.classifier, folder)
        with writing(folder):  # which may be gone
            size = f"{(folder / GRAPH).stat().st_size / 1e6:.1f} MB, opset {OPSET}"
        print(f"{folder / GRAPH}: {size}; largest difference from PyTorch {difference:.1e}")
        print(f'read a text with it: python {folder / SCRIPT} "This movie is amazing"')


def _check(settings: Node, style: str) -> None:
    """Checks which settings go together, before anything is loaded; raises a `UserError` with all faults."""
    require_packages("format", f"format={style}", PACKAGES[style], f"sentattn[{style}]")
    push = settings.get("push")
    idle = list(ONLY_HUB) if style != HUB else ["private"] if not push else []
    message = f"has no effect without {'format=hub' if style != HUB else 'push=USER/NAME'}: leave it out, or add it."
    faults = [Fault(key, "no_effect", f"{key}= {message}") for key in idle if key in settings]
    if push and style == HUB:
        from huggingface_hub import get_token

        if not re.fullmatch(r"[\w.-]+/[\w.-]+", push, re.ASCII):
            faults.append(Fault("push", "type", f"push={push} must be a name on the Hugging Face Hub, USER/NAME."))
        elif get_token() is None:
            message = f"push={push} needs a token of the Hugging Face Hub: type hf auth login, or set HF_TOKEN."
            faults.append(Fault("push", "missing", message))
    if faults:
        raise SettingError(*faults)


if __name__ == "__main__":
    sys.exit(main())
