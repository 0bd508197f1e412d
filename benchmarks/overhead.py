"""What a step of a training costs over a bare loop: sampling, collation, logging, metrics, checkpoint, Lightning.

A bare loop over tensors that are ready trains the same model on the same batches in the same order, with the same
optimizer, clipping, schedule and average of the weights. Against it: the training part of an epoch through our command.
Each step is compared with that of the same batch, and the median taken, so other processes disturb little and what
comes once an epoch, such as a checkpoint, is left out. Between the two stands Lightning alone: its `Trainer` around the
same model, optimizer and clipping over tensors that are ready, without average, metrics or callbacks.

usage: python benchmarks/overhead.py [rounds=7] [rows=3000] [profile=20] [SETTING ...]

`profile=N` prints the N functions that take most time of their own in an epoch of `fit` instead.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from measure import interleave, report
from pytorch_lightning import LightningModule, Trainer, seed_everything
from pytorch_lightning.callbacks import LambdaCallback
from torch.optim.swa_utils import get_ema_multi_avg_fn

from sentattn.build import build_data, build_model, instantiate
from sentattn.config.compose import compose
from sentattn.training.environment import set_up_torch
from sentattn.training.fit import fit as train
from sentattn.training.lit_module import build_optimizer
from sentattn.training.schedulers import Steps

KERAS = ["data=imdb", "data.vocab_size=19996", "data.max_length=200", "data.clip=tail", "data.batch_size=32"]
SIZES = [*KERAS, "data.batching=random", "model.embedding.size=32", "model.head.width=20"]
MODELS = {
    "mean": ["model=mean", *SIZES],
    "transformer": ["model=transformer", *SIZES, "model.encoder.heads=2", "model.encoder.hidden=32"],
}
BARE, LIGHTNING = "bare loop over tensors", "Lightning alone"


def main(arguments: list[str]) -> None:
    """Measures both models, a table each; with `profile` it prints where an epoch goes."""
    options = {"rounds": 7, "rows": 3000, "profile": 0}
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
        steps: dict[str, list[Any]] = {name: [] for name in (BARE, LIGHTNING, *settings)}
        forms = {BARE: bare.epoch, LIGHTNING: bare.lightning_epoch}
        forms |= {name: partial(fit, one) for name, one in settings.items()}
        timed = {name: partial(median_step, form, steps[name]) for name, form in forms.items()}
        readings = interleave(timed, rounds=options["rounds"], warm_up=2)
        report(f"The median step of {model}, {len(bare.batches)} steps", readings, baseline=BARE, goal="1 ms over bare")
        for name in (LIGHTNING, *settings):
            over = [1000 * np.median(ours - its) for ours, its in zip(steps[name], steps[BARE], strict=True)][2:]
            print(f"{name}: {np.median(over):.2f} ms over the bare step with the same batch, by round ", end="")
            print(f"{min(over):.2f} to {max(over):.2f}\n")


def median_step(epoch: Callable[[], list[float]], steps: list[Any]) -> float:
    """Runs an epoch, keeps the seconds of each of its steps but the first, and returns their median."""
    steps.append(np.diff(epoch())[1:])
    return float(np.median(steps[-1]))


def fit(settings: Mapping[str, Any]) -> list[float]:
    """Trains an epoch through our own command; returns the time at which each step began."""
    times: list[float] = []
    clock = LambdaCallback(on_train_batch_start=lambda *_: times.append(perf_counter()))
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        train({**settings, "output_dir": folder}, directory=Path(folder) / "run", callbacks=[clock])
    return times


class Bare:
    """The loop as one would write it by hand, over batches that are in memory."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        set_up_torch(settings)
        self.data = build_data(settings)
        self.data.prepare()
        self.batches = list(self.data.train_dataloader())

    def epoch(self) -> list[float]:
        """Returns the time at which each step began."""
        settings, data = self.settings, self.data
        seed_everything(settings["seed"], verbose=False)
        model = build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=len(data.labels))
        loss = instantiate(settings["loss"], class_counts=data.class_counts)
        optimizer = build_optimizer(settings, model)
        steps = len(self.batches)
        schedule = instantiate(settings["scheduler"])(optimizer, Steps(total=steps, per_epoch=steps))
        parameters = list(model.parameters())
        averaged, average = [p.detach().clone() for p in parameters], get_ema_multi_avg_fn(settings["ema_decay"])
        model.train()
        times = []
        for batch in self.batches:
            times.append(perf_counter())
            classified = model(batch.tokens_BL, batch.mask_BL)
            optimizer.zero_grad()
            loss(classified.logits_BC, batch.labels_B, classified.attended.weights_BRL).loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, settings["trainer"]["gradient_clip_val"])
            optimizer.step()
            schedule.step()
            average(averaged, [p.detach() for p in parameters], 1)
        return times

    def lightning_epoch(self) -> list[float]:
        """Returns the time at which each step began in Lightning's own loop."""
        settings, data = self.settings, self.data
        seed_everything(settings["seed"], verbose=False)
        model = build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=len(data.labels))
        loss = instantiate(settings["loss"], class_counts=data.class_counts)
        times: list[float] = []

        class Alone(LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def training_step(self, batch: Any, batch_idx: int) -> Any:
                classified = self.model(batch.tokens_BL, batch.mask_BL)
                return loss(classified.logits_BC, batch.labels_B, classified.attended.weights_BRL).loss

            def configure_optimizers(self) -> Any:
                return build_optimizer(settings, self.model)

        off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        clock = LambdaCallback(on_train_batch_start=lambda *_: times.append(perf_counter()))
        clip = settings["trainer"]["gradient_clip_val"]
        trainer = Trainer(max_epochs=1, accelerator="cpu", gradient_clip_val=clip, callbacks=[clock], **off)
        trainer.fit(Alone(), torch.utils.data.DataLoader(self.batches, batch_size=None))
        return times


def profile(settings: Mapping[str, Any], lines: int) -> None:
    """Prints the functions that take most time of their own in an epoch of `fit`."""
    fit(settings)
    profiler = cProfile.Profile()
    profiler.runcall(fit, settings)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
