"""`check=true`: what to expect of a training, from a few of its own steps. No run is written and no weight is kept."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.model_summary.model_summary import ModelSummary

from sentattn.console import Progress, table_lines
from sentattn.data.batching import Batch, BatchLoader
from sentattn.distributed import devices
from sentattn.models.classifier import TextClassifier
from sentattn.training import environment
from sentattn.training.callbacks import averaging
from sentattn.training.environment import THIS_MACHINE, format_bytes, require_memory, total_memory
from sentattn.training.fit import choose_precision, prepare
from sentattn.training.signals import Signals
from sentattn.training.trainer import build_trainer

Settings = Mapping[str, Any]

SECONDS, LONGEST, STEPS = 15.0, 60.0, 16
"""Seconds that all batches may take together and one alone, and how many of all sizes there are at most."""
SINGLE, HEAVIEST = 3, 2
"""Batches at the beginning of what is timed: a short text twice and the longest alone, and the largest batches."""
OUTPUTS = {
    "embedding": "states_BLE",
    "encoder": "states_BLD",
    "attention": "values_BRD",
    "pooling": "vector_BP",
    "head": "logits_BC",
    "wide": "terms_BGC",
}
"""The parts of a model and what each returns."""
ONCE = {"max_epochs": 1, "min_epochs": None, "profiler": None, "limit_train_batches": 1.0, "limit_val_batches": 1.0}
"""Trainer settings with which each of a few batches is used once."""
STEP = 3
"""Forward passes that cost about as much as a training step."""
CHECKPOINTS = 2
"""The best and the last."""


def check(settings: Settings, *, seeds: int = 1) -> None:
    """Prints what to expect of trainings with so many seeds: data, shapes, parameters, memory, time and disk.

    Raises:
        UserError: If the training would be refused, or its memory is not enough.
    """
    settings = choose_precision(settings)
    trainer = settings["trainer"]
    world = trainer.get("num_nodes", 1) * devices.count({**trainer, "num_nodes": 1})
    with Signals() as signals, Progress() as progress:
        data, lit, _ = prepare(settings, progress)
        train = Batches.of(data.train_dataloader(), data.split("train").lengths, world=world)
        splits = ("val", "test") if settings["test"] else ("val",)
        passes = {split: Batches.of(data.batches(split), data.split(split).lengths) for split in splits}
        require_memory(settings, lit.model, rows=len(train.rows[-1]), tokens=int(train.longest[-1]))
        print("\n".join([_lengths(train, data.max_length), *_shapes(lit.model, train)]))
        environment.reset_peak_memory()
        with environment.explained_out_of_memory(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*no `val_dataloader`.*")  # a few steps are enough
            steps = Timer(signals, progress, "Timing training steps", train.sample())
            _trainer(settings, steps).fit(lit, train_dataloaders=steps.batches)
            timer, passes_each = steps, STEP
            if steps.tried_heaviest:
                timer, passes_each = Timer(signals, progress, "Timing validation", passes["val"].sample()), 1
                _trainer(settings, timer).validate(lit, dataloaders=timer.batches, verbose=False)
        progress.close()
    seconds = {split: timer.expected(batches.tokens).sum() / passes_each for split, batches in passes.items()}
    share = _batches(trainer.get("limit_train_batches"), len(train)) / len(train)
    weights = sum(parameter.nbytes for parameter in lit.parameters())
    kept = weights + steps.state_bytes + (weights if settings["ema_decay"] is not None else 0)
    if not steps.tried_heaviest:
        duration = _duration(steps.expected(train.tokens[-1]))
        print(f"The largest batch was not tried: a step with it would take about {duration}.")
    print(_memory(settings, weights, steps.state_bytes))
    print("\n".join(_time(settings, steps.expected(train.tokens).sum() * share, seconds, seeds=seeds, world=world)))
    print(_disk(settings["output_dir"], seeds * (CHECKPOINTS * kept + weights)))
    print("Nothing was trained; leave out check=true to train.")


def _trainer(settings: Settings, timer: Timer) -> Trainer:
    once = {**settings, "trainer": {**settings["trainer"], **ONCE}}
    return build_trainer(once, callbacks=[timer, *averaging(settings)])


class Batches(Iterable[Batch]):
    """Some batches of a split, given by the rows of each, and their sizes.

    Attributes:
        lengths: Tokens of each row of the split.
        longest: Tokens of the longest row of each batch.
        tokens: Tokens of each batch, padding included.
        timer: Ends a pass early; None where all batches are wanted.
    """

    def __init__(self, dataset: Any, rows: Sequence[Sequence[int]], lengths: Any) -> None:
        self.dataset, self.rows, self.lengths = dataset, rows, lengths
        self.longest = np.array([int(lengths[batch].max()) for batch in rows])
        self.tokens = self.longest * np.array([len(batch) for batch in rows])
        self.timer: Timer | None = None

    @classmethod
    def of(cls, loader: BatchLoader, lengths: Any, *, world: int = 1) -> Batches:
        """Returns the batches of a loader, one rank's rows of each, the smallest first."""
        batches = cls(loader.dataset, [rows[::world] for rows in loader.sampler], lengths)
        return batches.pick(np.argsort(batches.tokens, kind="stable"))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Batch]:
        for index, rows in enumerate(self.rows):
            if index >= SINGLE and self.timer and self.timer.is_over(self.tokens[index]):
                return
            yield self.dataset[rows]

    def pick(self, indices: Iterable[int]) -> Batches:
        """Returns some of the batches, in this order."""
        return Batches(self.dataset, [self.rows[index] for index in indices], self.lengths)

    def sample(self) -> Batches:
        """Returns what is timed: single texts, the heaviest batches, and then batches of all sizes.

        The most memory is taken by the batch with the most tokens, or by the one with the most pairs of tokens.
        """
        spread = np.linspace(0, len(self) - 1, min(STEPS, len(self))).round().astype(int)
        heaviest = [int((self.tokens * self.longest).argmax()), len(self) - 1]
        chosen = self.pick([*heaviest, *np.random.default_rng(0).permutation(spread)])
        short, long = self.rows[0][:1], max(self.rows[int(self.longest.argmax())], key=lambda row: self.lengths[row])
        return Batches(self.dataset, [short, short, [long], *chosen.rows], self.lengths)


class Timer(Callback):
    """Times batches, and ends a pass over them early.

    Attributes:
        seconds: Of each batch.
        state_bytes: Size of the optimizer's state after the last step.
    """

    def __init__(self, signals: Signals, progress: Progress, stage: str, batches: Batches) -> None:
        self.signals, self.progress, self.stage, self.batches = signals, progress, stage, batches
        self.seconds: list[float] = []
        self.state_bytes = 0
        self._started = 0.0
        batches.timer = self

    def is_over(self, tokens: int) -> bool:
        """Returns whether a batch of so many tokens would take too long, or all so far have."""
        return sum(self.seconds[1:]) > SECONDS or bool(self.expected(tokens) > LONGEST)

    @property
    def tried_heaviest(self) -> bool:
        """Whether the heaviest batches were among those that were timed."""
        return len(self.seconds) >= SINGLE + HEAVIEST

    def expected(self, tokens: Any) -> Any:
        """Returns the seconds of batches with so many tokens: as many a token as batches of all sizes take.

        Where none of these were timed, on the line through the short text and the last batch, since a step also takes
        time that does not depend on the tokens, as for the update of the weights.
        """
        timed = slice(SINGLE + HEAVIEST, len(self.seconds))
        if len(self.seconds) > timed.start:
            return tokens * (sum(self.seconds[timed]) / self.batches.tokens[timed].sum())
        short, last = self.seconds[1], self.seconds[-1]
        fewest, most = self.batches.tokens[[1, len(self.seconds) - 1]]
        if most == fewest:
            return tokens * (last / most)
        return short + (tokens - fewest) * max(last - short, 0) / (most - fewest)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.install()  # Ctrl-C and SIGTERM raise at once, not as Lightning handles them
        self._started = time.perf_counter()

    on_validation_start = on_train_start

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)
        now = time.perf_counter()
        self.seconds.append(now - self._started)
        self._started = now
        self.progress(self.stage, len(self.seconds), len(self.batches))

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self.on_train_batch_end(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        states = [state for optimizer in trainer.optimizers for state in optimizer.state.values()]
        self.state_bytes = sum(value.nbytes for state in states for value in state.values() if torch.is_tensor(value))


def _lengths(train: Batches, max_length: int | None) -> str:
    lengths = train.lengths
    cut = " (cut there by data.max_length)" if lengths.max() == max_length else ""
    most = np.quantile(lengths, 0.95, method="inverted_cdf")
    return (
        f"Training texts: {lengths.mean():.0f} tokens on average, 95% have at most {most}, the longest "
        f"{lengths.max()}{cut}; {int(lengths.sum()):,} tokens an epoch."
    )


class _Slots(LightningModule):
    """The parts of a model for Lightning's summary, with one text as its input."""

    def __init__(self, model: TextClassifier, text: Batch) -> None:
        super().__init__()
        for slot in OUTPUTS:
            if slot != "wide" or list(model.wide.parameters()):
                self.add_module(slot, getattr(model, slot))
        self.example_input_array = (text.tokens_BL, text.mask_BL)
        self.classify = model.forward

    def forward(self, *inputs: Any) -> Any:
        return self.classify(*inputs)


def _shapes(model: TextClassifier, train: Batches) -> Iterator[str]:
    """Yields a line a part: what it returns for the largest batch, and its parameters."""
    rows, longest = len(train.rows[-1]), int(train.longest[-1])
    padding = 1 - sum(int(train.lengths[batch].sum()) for batch in train.rows) / train.tokens.sum()
    yield (
        f"The largest of {len(train):,} training batches has {rows} texts of at most {longest} tokens; "
        f"padding is {padding:.0%} of all tokens."
    )
    [batch] = train.pick([-1])
    row = int(batch.lengths_B.argmax())
    text = batch.take(slice(row, row + 1))
    summary = ModelSummary(_Slots(model, text))
    table = [("", "tokens_BL", f"{rows} x {longest}", "")]
    for slot, shape, count in zip(summary.layer_names, summary.out_sizes, summary.param_nums, strict=True):
        values = shape[0] if slot in ("attention", "wide") else shape
        table.append((slot, OUTPUTS[slot], " x ".join(map(str, (rows, *values[1:]))), f"{count:,}"))
        if slot == "attention":
            table.append(("", "weights_BRL", " x ".join(map(str, (rows, *shape[1][1:]))), ""))
    yield from (f"  {line}" for line in table_lines(table, align="<<<>"))
    total, learned = summary.total_parameters, summary.trainable_parameters
    yield f"  {total:,} parameters, {'all' if learned == total else f'{learned:,}'} learned."


def _memory(settings: Settings, weights: int, state: int) -> str:
    peak, (total, name) = environment.peak_memory_bytes(), total_memory(settings["trainer"]["accelerator"])
    used = "not measured on this system" if peak is None else f"about {format_bytes(peak)}"
    of = "" if total is None else f" of {format_bytes(total)} of {name}"
    libraries = ", with Python and libraries" if name == THIS_MACHINE else ""
    parts = f"the weights take {format_bytes(weights)}, the optimizer's state {format_bytes(state)}"
    return f"Memory: {used}{of}{libraries}; {parts}."


def _time(settings: Settings, training: float, passes: Mapping[str, float], *, seeds: int, world: int) -> Iterator[str]:
    epochs = settings["trainer"]["max_epochs"]
    validation = passes["val"] / world
    whole = epochs * (training + validation) + sum(passes.values())
    test = f", then {_duration(passes['test'])} of testing" if "test" in passes else ""
    epoch = f"{_duration(training)} of training and {_duration(validation)} of validation"
    yield f"Time: about {_duration(whole)} a run: {epochs} epoch{'s' * (epochs != 1)} of {epoch} each{test}."
    if world > 1:
        yield f"  on {world} devices, each with its share of every batch; communication comes on top."
    if seeds > 1:
        yield f"  {seeds} runs, one after another: about {_duration(seeds * whole)}."


def _batches(limit: float | None, number: int) -> int:
    """How many of an epoch's batches Lightning takes: a number of them, or a share."""
    if limit is None:
        return number
    return min(limit, number) if isinstance(limit, int) else int(limit * number)


def _disk(folder: str, size: int) -> str:
    """What runs keep: checkpoints, and the weights once more as the model."""
    path = Path(folder).absolute()
    free = shutil.disk_usage(next(parent for parent in (path, *path.parents) if parent.is_dir())).free
    enough = "" if size < free else " That is not enough: name another folder with output_dir=FOLDER."
    return f"Disk: about {format_bytes(size)} for what is kept; {format_bytes(free)} are free under {folder}.{enough}"


def _duration(seconds: float) -> str:
    """Returns a time for people."""
    if seconds < 100:
        return f"{max(seconds, 0.1):.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, hours = round(seconds / 60), round(seconds / 3600, 1)
    return f"{minutes} min" if minutes < 100 else f"{hours:,} h"
