"""What a step of a training costs over a bare loop: sampling, collation, logging, metrics, checkpoint, Lightning.

A bare loop over tensors that are ready trains the same model on the same batches in the same order, with the same
optimizer, clipping, schedule and average of the weights. Against it: the training part of an epoch through `fit`.

usage: python benchmarks/overhead.py [rounds=7] [rows=5000] [profile=20] [SETTING ...]

`profile=N` prints the N functions that take most time of their own in an epoch of `fit` instead.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import statistics
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from measure import interleave, report
from pytorch_lightning import seed_everything
from torch.optim.swa_utils import get_ema_multi_avg_fn

from sentattn.build import build_data, build_model, instantiate
from sentattn.config.compose import compose
from sentattn.schedulers import Steps
from sentattn.training.environment import set_up_torch
from sentattn.training.fit import train
from sentattn.training.trainer import build_optimizer

KERAS = ["data=imdb", "data.vocab_size=19996", "data.max_length=200", "data.clip=tail", "data.batch_size=32"]
SIZES = [*KERAS, "data.batching=random", "model.embedding.size=32", "model.head.width=20"]
MODELS = {
    "mean": ["model=mean", *SIZES],
    "transformer": ["model=transformer", *SIZES, "model.encoder.heads=2", "model.encoder.hidden=32"],
}
BARE = "bare loop over tensors"


def main(arguments: list[str]) -> None:
    """Measures both models, a table each; with `profile` it prints where an epoch goes."""
    options = {"rounds": 7, "rows": 5000, "profile": 0}
    options |= {key: int(value) for key, _, value in (a.partition("=") for a in arguments) if key in options}
    changed = [a for a in arguments if a.partition("=")[0] not in options]
    for model, sizes in MODELS.items():
        common = ["test=false", f"data.limit={options['rows']}", "trainer.max_epochs=1", *sizes, *changed]
        settings = {f"fit, logger={name}": compose([*common, f"logger={name}"]) for name in ("none", "csv")}
        first = next(iter(settings.values()))
        if options["profile"]:
            profile(first, options["profile"])
            continue
        bare = Bare(first)
        steps = len(bare.batches)
        forms = {name: partial(fit, one, steps) for name, one in settings.items()}
        readings = interleave({BARE: bare.epoch} | forms, rounds=options["rounds"], warm_up=2)
        report(f"A step of {model}, {steps} steps", readings, baseline=BARE, goal="1 ms over bare")
        for name in settings:
            over = [1000 * (slow - fast) for slow, fast in zip(readings[name], readings[BARE], strict=True)]
            print(f"{name}: {statistics.median(over):.2f} ms over bare ({min(over):.2f} to {max(over):.2f})\n")


def fit(settings: Mapping[str, Any], steps: int = 1) -> float:
    """Returns the seconds of a step in the training part of an epoch through our own command."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        run = train({**settings, "output_dir": folder}, directory=Path(folder) / "run")
        return float(run.result["seconds"]["train"]) / steps


class Bare:
    """The loop as one would write it by hand, over batches that are in memory."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        set_up_torch(settings)
        self.data = build_data(settings)
        self.data.prepare()
        self.batches = list(self.data.train_dataloader())

    def epoch(self) -> float:
        """Returns the seconds of a step."""
        settings, data = self.settings, self.data
        seed_everything(settings["seed"], verbose=False)
        model = build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=len(data.labels))
        loss = instantiate(settings["loss"], class_counts=data.class_counts)
        optimizer = build_optimizer(settings, model)
        steps = len(self.batches)
        schedule = instantiate(settings["scheduler"])(optimizer, Steps(total=steps, per_epoch=steps))["scheduler"]
        parameters = list(model.parameters())
        averaged, average = [p.detach().clone() for p in parameters], get_ema_multi_avg_fn(settings["ema_decay"])
        model.train()
        started = perf_counter()
        for batch in self.batches:
            classified = model(batch.tokens_BL, batch.mask_BL)
            optimizer.zero_grad()
            loss(classified.logits_BC, batch.labels_B, classified.attended.weights_BRL).loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, settings["trainer"]["gradient_clip_val"])
            optimizer.step()
            schedule.step()
            average(averaged, [p.detach() for p in parameters], 1)
        return (perf_counter() - started) / steps


def profile(settings: Mapping[str, Any], lines: int) -> None:
    """Prints the functions that take most time of their own in an epoch of `fit`."""
    fit(settings)
    profiler = cProfile.Profile()
    profiler.runcall(fit, settings)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
