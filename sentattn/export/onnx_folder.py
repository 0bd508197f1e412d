"""Exports a classifier as a folder: an ONNX graph for any batch size and length, verified, with what reads texts."""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
import textwrap
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.onnx.ops import symbolic

from sentattn.data.pieces import PieceTokenizer
from sentattn.data.tokenizer import PAD_ID, UNKNOWN_ID
from sentattn.errors import Fault, RunError, first_line
from sentattn.export import VERSION_KEY, new_folder
from sentattn.models.classifier import TextClassifier
from sentattn.models.states import States
from sentattn.prediction.model import Classifier

GRAPH, TOKENIZER, LABELS, CONFIG, SCRIPT = "model.onnx", "tokenizer.json", "labels.json", "config.json", "predict.py"
OPSET = 18
"""The oldest version that torch's exporter writes without conversion, for the widest choice of runtimes."""
TRACED_BATCH, TRACED_LENGTH = 2, 3
TOLERANCE = 1e-4
EXPORTERS = ("torch", "onnx", "contextlib", __name__)
"""How the names of modules begin whose lines are no part of a model."""
ADVICE = "A graph has no .item(), if and for on values of tensors; format=hub and python -m sentattn.predict need none."
UNBOUNDED = 512
"""Length of the longest text compared if the model has no maximal length."""


def write_export(classifier: Classifier, folder: Path) -> float:
    """Writes a classifier as ONNX with its tokenizer, its labels and a script, and verifies it in ONNX Runtime.

    Returns what `verify` returns; a `RunError` if the folder exists, the model cannot be exported, or the outputs
    of the graph differ.
    """
    text, model, labels = classifier.config["text"], classifier.model, list(classifier.labels)
    if isinstance(model.embedding, States):
        message = "format=onnx: a model of states has no encoder for texts; format=hub writes its weights."
        raise RunError(Fault("format", "unsupported", message))
    rules = text.get("tokenizer", "words")
    if rules == "spacy":
        message = (
            "format=onnx: data.tokenizer=spacy needs spaCy, which the exported script does without; use format=hub."
        )
        raise RunError(Fault("format", "unsupported", message))
    tokenizer = classifier.tokenizer
    pieces = tokenizer if isinstance(tokenizer, PieceTokenizer) else None
    longest = text["max_length"]
    library_ids_V = pieces.library_ids_V if pieces else np.arange(len(tokenizer))
    exported = OnnxClassifier(model, torch.from_numpy(pieces.ids_V).long() if pieces else None).eval()
    padding, unknown = int(library_ids_V[PAD_ID]), int(library_ids_V[UNKNOWN_ID])
    with new_folder(folder) as new:
        write_graph(exported, new / GRAPH, max_length=longest)
        difference = verify(new / GRAPH, exported, ids=len(library_ids_V), max_length=longest, padding=padding)
        weights = ["batch", model.attention.hops, "length"]
        config = {
            VERSION_KEY: version("sentattn"),
            "model": model.name,
            "opset": OPSET,
            "inputs": {
                "tokens": {
                    "dtype": "int64",
                    "shape": ["batch", "length"],
                    "is": f"ids, {padding} after the end of a text",
                },
                "lengths": {"dtype": "int64", "shape": ["batch"], "is": "number of tokens of each text, 1 or more"},
            },
            "outputs": {
                "probabilities": {"dtype": "float32", "shape": ["batch", len(labels)], "is": "in class order"},
                "attention": {"dtype": "float32", "shape": weights, "is": "a row of weights for each hop"},
            },
            "classes": labels,
            "max_length": longest,
            "clip": text["clip"],
            "tokenizer": "pieces" if pieces else rules,
            "padding": padding,
            "unknown": unknown,
            "special_tokens": {
                place: [{"id": int(pieces.library_ids_V[i]), "token": pieces.pieces[i]} for i in ids] if pieces else []
                for place, ids in (("before", tokenizer.prefix), ("after", tokenizer.suffix))
            },
        }
        tokenizer.save(new / TOKENIZER)
        for name, content in ((LABELS, labels), (CONFIG, config)):
            (new / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        shutil.copyfile(Path(__file__).with_name(SCRIPT), new / SCRIPT)
    return difference


def write_graph(original: OnnxClassifier, path: Path, *, max_length: int | None) -> None:
    """Writes a model as an ONNX file for texts of up to `max_length` tokens; None for any length.

    Raises:
        RunError: If the model cannot be exported; with torch's message.
    """
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    classifier = with_onnx_lstms(original)
    length = min(TRACED_LENGTH, max_length or TRACED_LENGTH)
    inputs = torch.ones(TRACED_BATCH, length, dtype=torch.int64), torch.full((TRACED_BATCH,), length)
    batch = torch.export.Dim("batch")
    shapes = {"tokens_BL": {0: batch, 1: torch.export.Dim("length", max=max_length)}, "lengths_B": {0: batch}}
    try:
        with _quiet(), torch.no_grad():
            original(*inputs)  # a frozen encoder is loaded when it is first used, which tracing would not survive
            program = torch.export.export(classifier, inputs, dynamic_shapes=shapes, strict=False)
            if any(node.target in DECOMPOSED for node in program.graph.nodes):
                program = program.run_decompositions(DECOMPOSED)
            exported = torch.onnx.export(
                program,
                dynamo=True,
                input_names=("tokens", "lengths"),
                output_names=("probabilities", "attention"),
                dynamic_shapes=shapes,
                opset_version=OPSET,
                verbose=False,
            )
            assert exported is not None
            ClearMetadataAndDocStringPass()(exported.model)  # source lines, with paths of the exporting machine
            exported.save(path, external_data=False)
    except OSError:  # such as a full disk, which is no error of the model
        raise
    except Exception as error:  # torch and onnxscript have no common class of errors
        cause: BaseException = error  # the first error has the reason; torch's messages are pages long
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = textwrap.shorten(str(cause) or type(cause).__name__, 300, placeholder=" [...]")
        frames = zip(traceback.walk_tb(cause.__traceback__), traceback.extract_tb(cause.__traceback__), strict=True)
        own = [line for (at, _), line in frames if not at.f_globals.get("__name__", "torch").startswith(EXPORTERS)]
        place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno}: {own[-1].line})" if own else ""
        message = f"The model {original.model.name} cannot be exported{place}: {reason.rstrip('.')}. {ADVICE}"
        raise RunError(Fault("format", "unsupported", message)) from error


class OnnxClassifier(nn.Module):
    """A classifier with the inputs and outputs of the graph: ids and lengths to probabilities and attention.

    Its input is lengths instead of a mask, so that there is no padding between words. Its ids are the model's, or those
    of a tokenizer's file, whose number in the model is in `ids_V`.
    """

    ids_V: Tensor | None

    def __init__(self, model: TextClassifier, ids_V: Tensor | None = None) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("ids_V", ids_V)

    def forward(self, tokens_BL: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Returns probabilities_BC and weights_BRL, float32, for ids (padding after a text) and lengths, int64."""
        tokens_BL = tokens_BL if self.ids_V is None else self.ids_V[tokens_BL]
        mask_BL = torch.arange(tokens_BL.shape[1], device=tokens_BL.device) < lengths_B[:, None]
        classified = self.model(tokens_BL, mask_BL)
        return classified.logits_BC.float().softmax(dim=-1), classified.attended.weights_BRL.float()


class OnnxLSTM(nn.Module):
    """One direction of one layer as ONNX's operator `LSTM`; it can only be exported.

    torch traces `nn.LSTM` into a graph with a fixed batch size and length. The order of the gates is input, output,
    forget, cell in ONNX, and input, forget, cell, output in torch.
    """

    incoming: Tensor
    recurrent: Tensor
    biases: Tensor

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.hidden = lstm.hidden_size
        parts = {name: tensor.chunk(4) for name, tensor in lstm.state_dict().items()}
        gates = {name: torch.cat([part[0], part[3], part[1], part[2]]) for name, part in parts.items()}
        self.register_buffer("incoming", gates["weight_ih_l0"][None])
        self.register_buffer("recurrent", gates["weight_hh_l0"][None])
        self.register_buffer("biases", torch.cat([gates["bias_ih_l0"], gates["bias_hh_l0"]])[None])

    def forward(self, states_BLE: Tensor, start: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, None]:
        """Returns states_BLU, and None for the final states, which no encoder reads; the initial states are 0."""
        batch, length, _ = states_BLE.shape
        states_L1BU = symbolic(
            "LSTM",
            (states_BLE.transpose(0, 1), self.incoming, self.recurrent, self.biases),
            {"hidden_size": self.hidden},
            dtype=states_BLE.dtype,
            shape=(length, 1, batch, self.hidden),
            version=OPSET,
        )
        return states_L1BU[:, 0].transpose(0, 1), None


def with_onnx_lstms(model: nn.Module) -> nn.Module:
    """Returns a copy of a model with `OnnxLSTM` for each LSTM of one layer and direction."""
    replica = copy.deepcopy(model)
    for module in list(replica.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.LSTM):
                layout = (child.num_layers, child.proj_size, child.bias, child.batch_first, child.bidirectional)
                if layout == (1, 0, True, True, False):
                    setattr(module, name, OnnxLSTM(child))
    return replica


def lower_bound(sorted_N: Tensor, values: Tensor, **options: object) -> Tensor:
    """Returns how many of the sorted numbers are smaller than each value: `torch.searchsorted` as a binary search.

    ONNX has no such operator. The loop is unrolled: 18 steps for 200,000 numbers.
    """
    assert sorted_N.dim() == 1, "one sorted list for all values"
    assert not any(options.values()), "options of searchsorted are not supported"
    size = sorted_N.shape[0]
    below = torch.zeros_like(values)
    step = 1 << (size.bit_length() - 1)
    while step:
        further = below + step
        smaller = sorted_N[further.clamp_max(size) - 1] < values
        below = torch.where((further <= size) & smaller, further, below)
        step //= 2
    return below


DECOMPOSED = {torch.ops.aten.searchsorted.Tensor: lower_bound}


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides the warnings and the output of the exporter: deprecations, optional packages, skipped steps."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with open(os.devnull, "w", encoding="utf-8") as devnull, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with redirect_stdout(devnull), redirect_stderr(devnull):
                yield
    finally:
        logging.disable(level)


def verify(path: Path, model: OnnxClassifier, *, ids: int, max_length: int | None, padding: int = PAD_ID) -> float:
    """Runs an ONNX file and its model, on the CPU and in evaluation mode, on the same random ids below `ids`.

    Texts are of one token, of two, some with padding, and the longest. Returns the largest difference of a probability
    or weight; a `RunError` if ONNX Runtime cannot run the file, or they differ by more than 1e-4.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.intra_op_num_threads = torch.get_num_threads()
    name, longest, random = model.model.name, max_length or UNBOUNDED, np.random.default_rng(0)
    worst, session = 0.0, None
    for lengths in dict.fromkeys(tuple(min(n, longest) for n in row) for row in ((1,), (2,), (7, 1, 4), (longest,))):
        lengths_B = np.array(lengths, dtype=np.int64)
        # A Zipf distribution, frequent words first, so that some n-grams are in the vocabulary.
        ids_BL = np.floor(ids ** random.random((len(lengths), lengths_B.max()))).astype(np.int64)
        tokens_BL = np.where(np.arange(lengths_B.max()) < lengths_B[:, None], ids_BL, padding)
        try:
            session = session or onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            outputs = session.run(None, {"tokens": tokens_BL, "lengths": lengths_B})
        except Exception as error:  # ONNX Runtime's errors have no common class
            message = f"ONNX Runtime cannot run the exported {name}: {first_line(error)}."
            raise RunError(Fault("format", "failed", message)) from error
        with torch.inference_mode():
            expected = model(torch.from_numpy(tokens_BL), torch.from_numpy(lengths_B))
        for values, of_model in zip(outputs, expected, strict=True):
            difference = float(np.abs(values - of_model.numpy()).max())
            if values.shape != of_model.shape or not difference <= TOLERANCE:  # or it is NaN
                message = f"The exported {name} differs from the model by {difference:.1e}, more than "
                raise RunError(Fault("format", "failed", f"{message}{TOLERANCE:.0e}; nothing was written."))
            worst = max(worst, difference)
    return worst
