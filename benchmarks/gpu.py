"""Measures on one GPU, in one call of at most eight minutes, what docs/performance.md says of GPUs.

usage: python benchmarks/gpu.py [device=cuda|cpu] [imdb=FILE] [yelp=FILE] [rows=N] [only=NAME,...] [minutes=7.8]

Each measurement runs in a process of its own with a limit of time, so that a failure loses no other one. A row of a
table is printed as soon as it is known, and one line of JSON at the end. Without `imdb=` and `yelp=` the texts are as
many random words of about the same lengths, on which a step takes the same time; `rows=500` reads or makes that many.
`device=cpu` only tries the script: short texts, small batches, and no number means anything.

On a machine without a network, with torch and pytorch-lightning but without this project's other packages, carry wheels
of hydra-core, omegaconf, antlr4-python3-runtime, optuna, alembic, colorlog, Mako, SQLAlchemy, pydantic, pydantic-core,
annotated-types and typing-inspection, and run `PYTHONPATH=.:THEIR_FOLDER python benchmarks/gpu.py`.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import measure
import numpy as np
import torch
from pytorch_lightning import Callback
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

FOLDER = Path(tempfile.gettempdir()) / "sentattn_gpu"
GLUON_COUNTS = (269, 4494, 13819, 14968, 15000, 14057, 12908, 11670, 10270, 100545)
"""Of the tutorial's texts, the number with at most 10, 20, ... 100 words."""
Readings = Iterator[tuple[str, dict[str, float]]]


class Options(NamedTuple):
    """The arguments."""

    device: str = "cuda"
    imdb: str = ""
    yelp: str = ""
    rows: int = 0
    only: str = ""
    minutes: float = 7.8

    @property
    def on_gpu(self) -> bool:
        """Whether the numbers count."""
        return self.device == "cuda"

    def settings(self, experiment: str, *more: str) -> list[str]:
        """Returns the settings of a training of an experiment on real or on random texts."""
        name = "yelp" if experiment == "gluon_yelp" else "imdb"
        words = [f"experiment={experiment}", "logger=none", "test=false", f"output_dir={FOLDER / 'outputs'}"]
        words += [f"trainer.accelerator={self.device}", f"data.cache_dir={FOLDER}", "data.tokenizer=words"]
        if file := getattr(self, name):
            words += [f"data={name}", f"data.path={file}", *([f"data.limit={self.rows}"] if self.rows else [])]
        else:
            train, test = random_table(name, self.rows)
            words += ["data=table", f"data.train={train}", f"data.test={test}"]
        if name == "yelp":  # the tutorial's frozen vectors have 300 dimensions; their values do not matter here
            words += ["data.val_size=0.01", "data.vectors=null", "model.embedding.size=300"]
        return [*words, *more]


def random_table(name: str, rows: int) -> tuple[Path, Path]:
    """Returns files of training and test rows with random texts, as many and about as long as the real ones."""
    random, counts = np.random.default_rng(0), (rows or {"yelp": 198_000, "imdb": 25_000}[name], 100)
    FOLDER.mkdir(exist_ok=True)
    files = tuple(FOLDER / f"{name}_{count}.csv" for count in counts)
    words = np.array([f"w{number}" for number in range(30000)])
    shares = np.cumsum(1 / np.arange(10, len(words) + 10))
    for file, count in zip(files, counts, strict=True):
        if file.exists():  # another measurement has written it, and its corpus is in the cache
            continue
        if name == "yelp":
            keys = random.choice(np.arange(10, 101, 10), count, p=np.array(GLUON_COUNTS) / sum(GLUON_COUNTS))
            lengths = keys - random.integers(0, 10, count) * (keys < 100)
        else:
            lengths = np.clip(random.lognormal(5.4, 0.6, count), 10, 600).astype(int)
        tokens = words[np.searchsorted(shares, shares[-1] * random.random(lengths.sum()))].tolist()
        ends, labels = np.cumsum(lengths).tolist(), random.integers(0, 5 if name == "yelp" else 2, count).tolist()
        texts = (" ".join(tokens[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True))
        part = file.with_suffix(".part")
        part.write_text("text,label\n" + "".join(f"{t},{n}\n" for t, n in zip(texts, labels, strict=True)))
        part.replace(file)
    return files[0], files[1]


class Epochs(Callback):
    """Ends a training at the start of its last epoch; knows the seconds from the start of each epoch to the next."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.validations: list[float] = []

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Records the time."""
        self.starts.append(time.perf_counter())
        if trainer.current_epoch == trainer.max_epochs - 1:
            from sentattn.errors import Pruned

            raise Pruned

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Records the end of the training part; the values of the epoch's last step have been read by then."""
        self.validations.append(time.perf_counter())


def train(settings: list[str], *callbacks: Callback, directory: Path | None = None, resume: Path | None = None) -> None:
    """Trains as the command does."""
    from sentattn.config.request import read_request
    from sentattn.training import fit

    fit.fit(read_request(settings).settings, callbacks=callbacks, directory=directory, resume=resume)


def epochs(options: Options, experiment: str, *more: str) -> Readings:
    """Seconds of the second epoch: training, validation, and the checkpoint between two epochs."""
    times = Epochs()
    train(options.settings(experiment, "trainer.max_epochs=3", *more), times)
    first, second, third = times.starts
    training = times.validations[1] - second
    seconds = {"s an epoch": third - second, "s of it training": training, "s the first": second - first}
    yield " ".join((experiment, *more)), seconds


class StopAt(Callback):
    """Sends this process Ctrl-C in the middle of an epoch."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Sends it in the second epoch."""
        if trainer.current_epoch == 1 and batch_idx == trainer.num_training_batches // 2:
            os.kill(os.getpid(), signal.SIGINT)


def resume(options: Options, experiment: str) -> Readings:
    """An interrupted training that is resumed against one that is not: how far weights and metrics are apart."""
    from safetensors.torch import load_file

    from sentattn.errors import Interruption
    from sentattn.run import Run

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        whole, resumed = Path(folder) / "whole", Path(folder) / "resumed"
        settings = options.settings(experiment, "trainer.max_epochs=3", "trainer.deterministic=true")
        train(settings, directory=whole)
        with suppress(Interruption):
            train(settings, StopAt(), directory=resumed)
        assert not (resumed / "result.json").exists(), "it was interrupted"
        train(settings, resume=resumed)
        weights = [load_file(path / "model" / "model.safetensors") for path in (whole, resumed)]
        apart = max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0])
        accuracies = [Run(path).metrics["val/accuracy"] for path in (whole, resumed)]
        tokens = [json.loads((p / "metrics.jsonl").read_text().splitlines()[-1])["tokens"] for p in (whole, resumed)]
    yield (
        experiment,
        {
            "weights apart": apart,
            "val/accuracy apart": abs(accuracies[0] - accuracies[1]),
            "tokens apart": abs(tokens[0] - tokens[1]),
        },
    )


class Trace(Callback):
    """Times some steps of a training, and profiles as many after them."""

    def __init__(self, options: Options) -> None:
        self.steps = 100 if options.on_gpu and not options.rows else 2
        kinds = torch.profiler.ProfilerActivity
        self.profile = torch.profiler.profile(activities=[kinds.CUDA if options.on_gpu else kinds.CPU])
        self.times: list[float] = []

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """After some steps of warm-up begins the untraced ones, then those with a trace, and ends them."""
        turn, rest = divmod(batch_idx, self.steps)
        if trainer.current_epoch == 0 and rest == 0 and turn in (1, 2, 3):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.times.append(time.perf_counter())
            if turn > 1:
                (self.profile.start if turn == 2 else self.profile.stop)()


def idle(options: Options, experiment: str) -> Readings:
    """Share of a step's time without a kernel or a copy on the GPU, and operations a step.

    A traced step is slower, so the time that the GPU is busy, from the trace, is compared with that of untraced steps.
    """
    trace, file = Trace(options), FOLDER / "trace.json"
    short = ("trainer.max_epochs=2", f"trainer.limit_train_batches={3 * trace.steps + 2}")
    train(options.settings(experiment, *short), Epochs(), trace)
    trace.profile.export_chrome_trace(str(file))
    events = [event for event in json.loads(file.read_text())["traceEvents"] if event.get("ph") == "X"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset") if options.on_gpu else ("cpu_op",)
    spans = sorted((float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events if e.get("cat") in kinds)
    busy, end = 0.0, 0.0
    for start, stop in spans:
        busy, end = busy + max(0.0, stop - max(start, end)), max(end, stop)
    step, traced = (1000 * (end - start) / trace.steps for start, end in itertools.pairwise(trace.times))
    busy /= 1000 * trace.steps
    counts = Counter(event.get("cat") for event in events)
    waits = sum("Synchronize" in event["name"] for event in events if str(event.get("cat")).startswith("cuda_"))
    values = {"% idle": 100 * (1 - busy / step), "ms a step": step, "ms traced": traced, "ms busy": busy}
    values |= {name: counts[kind] / trace.steps for name, kind in (("kernels", "kernel"), ("copies", "gpu_memcpy"))}
    yield experiment, values | {"waits": waits / trace.steps}


def trials(options: Options) -> Readings:
    """Trials an hour of a sweep, one at a time and several on the card."""
    from sweep_throughput import Span

    from sentattn.sweep.execution.local import LocalEngine
    from sentattn.sweep.execution.resources import find
    from sentattn.sweep.execution.scheduler import Scheduler
    from sentattn.sweep.spec.config import read_plan
    from sentattn.sweep.study.study import SweepStudy

    settings = options._replace(rows=options.rows or 5000).settings("keras_imdb", "trainer.max_epochs=2")
    settings = [word for word in settings if not word.startswith(("test=", "output_dir="))]
    rates: dict[int, float] = {}
    for slots, number in ((1, 4), (4, 12), (12, 36)) if options.on_gpu else ((1, 2), (2, 4)):
        with tempfile.TemporaryDirectory() as folder:
            words = [*settings, "sampler=random", "pruner=none", "optimizer.lr=interval(0.0005,0.002)"]
            plan, span = read_plan([*words, f"trials={number}", "study=gpu", f"output_dir={folder}"]), Span()
            with SweepStudy.open(plan, Path(folder)) as study:
                places = find(replace(plan, slots=slots, threads=1), options.device)
                engine = LocalEngine(
                    "sentattn.sweep.execution.trial", [plan.arguments({})], Path(folder) / "server.txt"
                )
                Scheduler([study], places, engine, [span]).run()
        rates[slots] = 3600 * number / (span.ended_at - span.began)
        yield f"keras_imdb, {slots} at once", {"trials an hour": rates[slots], "x one": rates[slots] / rates[1]}


class Step:
    """A training step of an experiment's model on a batch of one shape, and forms of it with fewer launches."""

    def __init__(self, options: Options, experiment: str, batch: int, length: int) -> None:
        from sentattn.build import build_model, instantiate
        from sentattn.config.compose import compose

        torch.manual_seed(0)
        settings, classes = compose([f"experiment={experiment}", "logger=none"]), 5 if experiment == "gluon_yelp" else 2
        model = build_model(settings["model"], num_embeddings=10000, classes=classes).to(options.device).train()
        counts = {str(number): 1 for number in range(classes)}
        self.model, self.loss = model, instantiate(settings["loss"], class_counts=counts).to(options.device)
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(learned, fused=True, capturable=options.on_gpu)
        self.tokens_BL = torch.randint(2, 10000, (batch, length), device=options.device)
        self.mask_BL, self.labels_B = self.tokens_BL > 0, torch.arange(batch, device=options.device) % classes
        self.classify: Callable[..., Any] = self.eager

    def eager(self, tokens_BL: Tensor, mask_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Returns logits and attention."""
        classified = self.model(tokens_BL, mask_BL)
        return classified.logits_BC, classified.attended.weights_BRL

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        logits_BC, weights_BRL = self.classify(self.tokens_BL, self.mask_BL)
        self.loss(logits_BC, self.labels_B, weights_BRL).loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()

    def as_it_is(self) -> Callable[[], None]:
        """Every operation launched by itself."""
        return self

    def compiled(self) -> Callable[[], None]:
        """As `compile=true` does."""
        self.model.compile(dynamic=True)
        return self

    def reduce_overhead(self) -> Callable[[], None]:
        """CUDA graphs made by torch.compile."""
        self.classify = torch.compile(self.eager, mode="reduce-overhead")
        return self

    def graphed(self) -> Callable[[], None]:
        """Forward and backward pass as two CUDA graphs."""
        self.classify = torch.cuda.make_graphed_callables(Logits(self), (self.tokens_BL, self.mask_BL))
        return self

    def whole(self) -> Callable[[], None]:
        """The whole step, loss, clipping and Adam included, as one CUDA graph."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has no types for it
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self()
        return graph.replay


class Logits(nn.Module):
    """The model of a step with a pair of tensors as its result."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.model, self.step = step.model, step.eager

    def forward(self, tokens_BL: Tensor, mask_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Returns logits and attention."""
        return self.step(tokens_BL, mask_BL)


def launches(options: Options, experiment: str, batch: int, length: int) -> Readings:
    """Milliseconds of a step at one shape, without data and Lightning."""
    batch, length = (batch, length) if options.on_gpu else (4, 20)
    named = {"eager": Step.as_it_is, "one CUDA graph": Step.whole, "make_graphed_callables": Step.graphed}
    named |= {"compile=true": Step.compiled, "compile, reduce-overhead": Step.reduce_overhead}
    for name, make in named.items():
        label = f"{experiment} {batch} x {length}, {name}"
        try:
            form = make(Step(options, experiment, batch, length))
            form()
            yield label, {"ms a step": _milliseconds(form, options)}
        except Exception as error:  # such as no compiler, or an operation that cannot be captured
            yield f"{label}: {_short(error)}", {}


def kernels(options: Options) -> Readings:
    """Milliseconds of forward and backward pass of the BiLSTM and of fused attention, by type of number."""
    from sentattn.models.encoders.bilstm import BiLSTM

    texts, length, dim = (64, 100, 300) if options.on_gpu else (4, 20, 30)
    lengths = torch.randint(length * 9 // 10, length + 1, (texts,))
    lengths[0] = length
    mask_BL = (torch.arange(length) < lengths[:, None]).to(options.device)
    states = torch.randn(texts, length, dim, device=options.device, requires_grad=True)
    ours = BiLSTM(dim=dim, hidden=dim, layers=2).to(options.device)
    packed = nn.LSTM(dim, dim, 2, bidirectional=True, batch_first=True).to(options.device)

    def read_packed() -> Tensor:
        rows, _ = packed(pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False))
        return pad_packed_sequence(rows, batch_first=True)[0]

    shape = (32, 2, 200, 16) if options.on_gpu else (4, 2, 20, 16)
    query = torch.randn(*shape, device=options.device, requires_grad=True)
    keys_B11L = torch.ones(shape[0], 1, 1, shape[2], dtype=torch.bool, device=options.device)
    forms: dict[str, Callable[[], Tensor]] = {
        f"BiLSTM 2 x {dim}, ours, two calls a layer": lambda: ours(states, mask_BL),
        f"BiLSTM 2 x {dim}, ours, one packed call a layer": lambda: ours.packed(states, lengths.numpy()),
        f"BiLSTM 2 x {dim}, packed nn.LSTM": read_packed,
        f"attention {shape} with mask": lambda: functional.scaled_dot_product_attention(
            query, query, query, attn_mask=keys_B11L
        ),
        f"attention {shape} without mask": lambda: functional.scaled_dot_product_attention(query, query, query),
    }
    for name, form in forms.items():
        for kind in (torch.float32, torch.bfloat16):

            def run(form: Callable[[], Tensor] = form, kind: torch.dtype = kind) -> None:
                with torch.autocast(options.device, kind, enabled=kind != torch.float32):
                    out = form()
                out.float().square().mean().backward()  # type: ignore[no-untyped-call]

            yield f"{name}, {str(kind).removeprefix('torch.')}", {"ms": _milliseconds(run, options)}


def _milliseconds(form: Callable[[], object], options: Options) -> float:
    """Returns the median over five rounds of some calls each, after three calls of warm-up."""
    calls = 50 if options.on_gpu else 2

    def some() -> None:
        for _ in range(calls):
            form()
        if options.on_gpu:
            torch.cuda.synchronize()

    for _ in range(3):
        form()
    seconds = measure.interleave({"form": some}, rounds=5, warm_up=1)["form"]
    return 1000 * sorted(seconds)[2] / calls


class Row(NamedTuple):
    """A measurement, the seconds it may take, and what it should reach."""

    run: Callable[[Options], Readings]
    limit: int
    goal: str = ""


GRAPHS = "measured: eager, compile=true, CUDA graphs"
ROWS = {
    "resume": Row(lambda o: resume(o._replace(rows=o.rows or 2000), "keras_imdb"), 60, "0 apart"),
    "keras": Row(lambda o: epochs(o, "keras_imdb"), 60, "epoch <= 1 s"),
    "gluon": Row(lambda o: epochs(o, "gluon_yelp"), 150, "epoch <= 8 s; tutorial 181 to 305 s"),
    "idle_gluon": Row(lambda o: idle(o, "gluon_yelp"), 45, "idle < 5%"),
    "idle_keras": Row(lambda o: idle(o, "keras_imdb"), 40, "idle < 5%"),
    "trials": Row(trials, 100, ">= 3 times one"),
    "graphs_keras": Row(lambda o: launches(o, "keras_imdb", 32, 200), 70, GRAPHS),
    "kernels": Row(kernels, 40, "measured: BiLSTM and attention, float32 and bfloat16"),
    "graphs_gluon": Row(lambda o: launches(o, "gluon_yelp", 64, 100), 70, GRAPHS),
    "gluon_bf16": Row(lambda o: epochs(o, "gluon_yelp", "trainer.precision=bf16-mixed"), 70, "epoch <= 8 s"),
    "keras_256": Row(lambda o: epochs(o, "keras_imdb", "data.batch_size=256"), 40, "another training: larger batches"),
}
"""The most important first: what does not fit into the time is left out."""


def main(words: list[str], options: Options) -> None:
    """Runs the measurements, each in its process; prints a table and one line of JSON."""
    began, results = time.monotonic(), {}
    texts = " and ".join(f"{name} {getattr(options, name) or 'of random words'}" for name in ("imdb", "yelp"))
    print(f"{'' if options.on_gpu else 'NOT ON A GPU: these numbers mean nothing. '}Texts: {texts}.\n")
    print("| row | what | measured | goal |\n|---|---|---|---|", flush=True)
    for name in options.only.split(",") if options.only else ROWS:
        left = 60 * options.minutes - (time.monotonic() - began)
        limit = min(ROWS[name].limit, left) if options.on_gpu else left
        results[name] = _in_process(name, words, limit) if limit > 5 else {"left out: no time": {}}
        if limit <= 5:
            print(f"| {name} | left out: no time | | |")
    print("\n" + json.dumps({"title": "GPU", "counts": options.on_gpu, "rows": results} | measure.machine()))


def _in_process(name: str, words: list[str], limit: float) -> dict[str, Any]:
    """Prints and returns what a measurement yields until it ends or its time is up."""
    readings: dict[str, Any] = {}
    command = [sys.executable, __file__, "--row", name, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        timer = threading.Timer(limit, functools.partial(os.killpg, process.pid, signal.SIGKILL))
        timer.start()
        last, started = "", time.monotonic()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith('{"row": '):
                row = json.loads(line)
                readings[row["row"]] = row["values"]
                values = ", ".join(f"{value:.4g} {unit}" for unit, value in row["values"].items())
                print(f"| {name} | {row['row']} | {values} | {ROWS[name].goal} |", flush=True)
            else:
                last = line.strip() or last
        code = process.wait()
        timer.cancel()
    if code:
        stopped = time.monotonic() - started >= limit
        reason = f"stopped after {limit:.0f} s" if stopped else f"failed: {last[:200]}"
        readings[reason] = {}
        print(f"| {name} | {reason} | | {ROWS[name].goal} |", flush=True)
    return readings


def _short(error: Exception) -> str:
    return " ".join(traceback.format_exception_only(error)[-1].split())[:150].replace("|", "/")


if __name__ == "__main__":
    arguments = sys.argv[3:] if sys.argv[1:2] == ["--row"] else sys.argv[1:]
    given = dict(word.split("=", 1) for word in arguments)
    kinds = {"rows": int, "minutes": float}
    chosen = Options(**{key: kinds.get(key, str)(text) for key, text in given.items()})
    if sys.argv[1:2] == ["--row"]:
        for what, measured in ROWS[sys.argv[2]].run(chosen):
            print(json.dumps({"row": what, "values": measured}), flush=True)
    else:
        main(arguments, chosen)
