"""Milliseconds of one text of 20 words: our classifier in process, the bare forward pass, and ONNX Runtime.

`predict` is text to label, probabilities and attention; the exported script's `Model.predict` gives the same. All have
as many threads as torch. The runs are trained ones, such as those of the demo corpus; each is exported first.

usage: python benchmarks/latency.py RUN [RUN ...]
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from measure import interleave, report

from sentattn.data.batching import pad
from sentattn.export.onnx_folder import write_export
from sentattn.export.predict import Model
from sentattn.prediction.model import load

TEXT = "The food was slow at first but the staff were kind and the wine that we had was really wonderful"
CALLS = 50


def repeated(call: Callable[[], object]) -> Callable[[], object]:
    """Returns a form that runs a call as often as a round needs."""
    return lambda: [call() for _ in range(CALLS)]


@torch.inference_mode()
def main(folder: str) -> None:
    """Prints the table of a run."""
    torch.set_flush_denormal(True)
    classifier = load(folder).classifier
    with tempfile.TemporaryDirectory() as place:
        write_export(classifier, Path(place, "onnx"))
        exported = Model(Path(place, "onnx"))
        tokens_BL, mask_BL = pad([classifier.tokenizer.encode([TEXT])[0].ids])
        session, inputs = exported._session, {"tokens": tokens_BL.numpy(), "lengths": mask_BL.sum(dim=1).numpy()}
        forms = {
            "predict": repeated(lambda: classifier.predict([TEXT])),
            "forward pass, eager": repeated(lambda: classifier.model(tokens_BL, mask_BL)),
            "ONNX, predict": repeated(lambda: exported.predict([TEXT])),
            "ONNX, forward pass": repeated(lambda: session.run(["probabilities", "attention"], inputs)),
        }
        readings = interleave(forms, rounds=9)
    goal = "5 ms, ONNX faster than eager"
    title = f"{classifier.model.name}, one text of {tokens_BL.shape[1]} tokens"
    report(title, readings, baseline="forward pass, eager", goal=goal, scale=1000 / CALLS)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        for run in sys.argv[1:]:
            main(run)
    else:
        print((__doc__ or "").strip(), file=sys.stderr)
        sys.exit(os.EX_USAGE)
