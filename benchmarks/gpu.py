"""Checks on one CUDA GPU what the tests cannot, in about eight minutes; prints a line a check.

usage: python benchmarks/gpu.py [--cpu] [--minilm FOLDER] [--yelp FILE] [CHECK ...]

`--minilm` is a folder with all-MiniLM-L6-v2, `--yelp` a file of Yelp's reviews. The exit code is 1 if a check failed.
`--cpu` tries this script where there is no GPU: what needs one is left out, and no number means anything.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback
from safetensors.torch import load_file
from torch import nn

APART = 0.05  # by which share the loss in bfloat16 may differ from that in float32
TUTORIAL = 181  # seconds of an epoch of Yelp in the GluonNLP tutorial, the fastest that it shows
STEPS = range(5, 15)  # in which waits are counted
CHECKS = ["two_trials_share_the_gpu", "transformer_in_bfloat16", "killed_training_resumes_to_the_same_end"]
NEEDS = {"lstm_in_float32_under_bf16_mixed": "cuda", "no_step_waits_for_the_gpu": "cuda"}
NEEDS |= {"minilm_is_tuned": "minilm", "epoch_of_yelp": "yelp"}
PROBE = (f"callbacks.probe._target_={Path(__file__).stem}.Probe", "trust=true", "trainer.max_epochs=2")
WAIT = r"(\w+\.py:\d+): UserWarning: called a synchronizing"
VARIABLES = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "default"}


class Probe(Callback):
    """In a training: prints the types of the numbers that LSTMs return, and lets torch warn of waits for the GPU."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        nn.modules.module.register_module_forward_hook(self.note)  # of all modules, also those that the model hides

    def note(self, module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(module, nn.LSTM):
            print(f"\nLSTM in {output[0].dtype}", flush=True)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if torch.cuda.is_available() and batch_idx in (STEPS.start, STEPS.stop):
            torch.ones(1, device="cuda").item()  # a wait: at the end its warning shows that warnings are not lost
            torch.cuda.set_sync_debug_mode("warn" if batch_idx == STEPS.start else "default")


class Checks:
    """Each check returns what it has measured, and whether that is right."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.cpu, self.cuda, self.minilm, self.yelp = options.cpu, not options.cpu, options.minilm, options.yelp
        self.folder = folder
        device = "cpu threads=1 data.limit=400" if self.cpu else "cuda"
        self.usual = f"logger=none trainer.accelerator={device}".split()

    def run(self, module: str, *words: str) -> str:
        command = [sys.executable, "-m", f"sentattn.{module}", *words]
        done = subprocess.run(command, env=VARIABLES, capture_output=True, text=True, timeout=240)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
        return f"{done.stdout}{done.stderr}"

    def train(self, name: str, *words: str) -> tuple[dict[str, Any], str]:
        output = self.run("train", *self.usual, "test=false", f"output_dir={self.folder / name}", *words)
        return json.loads(next((self.folder / name).rglob("result.json")).read_text()), output

    def two_trials_share_the_gpu(self) -> tuple[str, bool]:
        words = ["optimizer.lr=interval(0.001,0.002)", "trials=2", "slots=2" if self.cpu else "slots_per_gpu=2"]
        self.run("sweep", *self.usual, *words, "study=shared", f"output_dir={self.folder}")
        trials = self.folder / "sweeps" / "shared" / "trials"
        began, ended = ([f.stat().st_mtime for f in trials.glob(f"*/{n}")] for n in ("config.yaml", "result.json"))
        return f"{min(ended) - max(began):.1f} s at once", min(ended) > max(began)

    def losses(self, *models: str) -> tuple[float, set[str]]:
        """Returns by which share losses in bfloat16 differ at most, and the types of numbers of LSTMs there."""
        kinds = ("32-true", "bf16-mixed")
        runs = [[self.train(m + k, f"model={m}", f"trainer.precision={k}", *PROBE) for k in kinds] for m in models]
        losses = [[result["metrics"]["train/loss"] for result, _ in pair] for pair in runs]
        types = {*re.findall(r"LSTM in (\S+)", "".join(printed for _, (_, printed) in runs))}
        return max(abs(mixed / exact - 1) for exact, mixed in losses), types

    def transformer_in_bfloat16(self) -> tuple[str, bool]:
        apart, _ = self.losses("transformer")
        return f"loss {apart:.2%} from 32-true", apart < APART

    def lstm_in_float32_under_bf16_mixed(self) -> tuple[str, bool]:
        apart, types = self.losses("lstm", "structured")  # in one direction, and in two
        return f"{types}, loss {apart:.2%} from 32-true", types == {"torch.float32"} and apart < APART

    def no_step_waits_for_the_gpu(self) -> tuple[str, bool]:
        waits = [{*re.findall(WAIT, self.train(m, f"model={m}", *PROBE)[1])} for m in ("structured", "transformer")]
        return f"{waits} in {len(STEPS)} steps each", all(len(found) == 1 and "gpu.py" in str(found) for found in waits)

    def killed_training_resumes_to_the_same_end(self) -> tuple[str, bool]:
        words = ["trainer.max_epochs=3", "trainer.deterministic=true", "test=false"]
        self.train("whole", *words)
        words += [*self.usual, "checkpoint_minutes=0", f"output_dir={self.folder / 'killed'}"]
        with subprocess.Popen([sys.executable, "-m", "sentattn.train", *words], stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and not [*self.folder.glob("killed/**/last.ckpt")]:
                time.sleep(0.02)
            process.kill()
        self.run("train", f"resume={next(self.folder.glob('killed/**/config.yaml')).parent}")
        whole, resumed = (load_file(next(self.folder.glob(f"{n}/**/model.safetensors"))) for n in ("whole", "killed"))
        apart = max(float((whole[name] - resumed[name]).abs().max()) for name in whole)
        return f"exit code {process.returncode}, then weights {apart:g} apart", process.returncode < 0 and apart == 0

    def minilm_is_tuned(self) -> tuple[str, bool]:
        words = ["model=pretrained", "model.embedding.frozen=false", "model.embedding.lr=1e-4", "trainer.max_epochs=2"]
        metrics = self.train("minilm", *words, f"model.embedding.name={self.minilm}")[0]["metrics"]
        return f"validation accuracy {metrics['val/accuracy']:.3f}", self.cpu or metrics["val/accuracy"] > 0.6

    def epoch_of_yelp(self) -> tuple[str, bool]:
        words = ["experiment=gluon_yelp", "data.vectors=null", "model.embedding.size=300", "trainer.max_epochs=1"]
        seconds = self.train("yelp", *words, f"data.path={self.yelp}")[0]["seconds"]["train"]
        return f"{seconds:.1f} s of training; the tutorial's program took {TUTORIAL} s", seconds < TUTORIAL


def main() -> bool:
    """Runs the checks; returns whether one has failed."""
    parser, failed = argparse.ArgumentParser(usage=str(__doc__).partition("usage: ")[2]), False
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--minilm", type=Path)
    parser.add_argument("--yelp", type=Path)
    parser.add_argument("checks", nargs="*", help="all by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(options, Path(folder))
        for name in options.checks or [*CHECKS, *NEEDS]:
            needed, began = NEEDS.get(name, "folder"), time.monotonic()
            lack = "" if getattr(checks, needed) else needed
            try:
                measured, right = (f"left out, needs {lack}", True) if lack else getattr(checks, name)()
            except Exception as error:  # of one check; the others run
                measured, right = f"{type(error).__name__}: {error}", False
            result = "" if lack else f" ({time.monotonic() - began:.0f} s) {'ok' if right else 'FAILED'}"
            print(f"{name}: {measured}{result}", flush=True)
            failed |= not right
    return failed


if __name__ == "__main__":
    sys.exit(main())
