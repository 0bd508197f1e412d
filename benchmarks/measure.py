"""What the benchmarks share: words that are typed, rows, interleaved rounds, processes and reports."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import torch

    from sentattn.data.datamodule import TextData

Readings = dict[str, list[float]]


def read_options(words: Iterable[str], **defaults: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns the options of a benchmark, typed as KEY=VALUE with the types of their defaults, and all other words."""
    options, others = defaults.copy(), []
    for word in words:
        key, _, value = word.partition("=")
        if key in defaults:
            options[key] = type(defaults[key])(value)
        else:
            others.append(word)
    return options, others


def with_defaults(settings: Iterable[str], *defaults: str) -> list[str]:
    """Returns settings, after the defaults of those that are not among them."""
    return list({word.partition("=")[0]: word for word in (*defaults, *settings)}.values())


def leave_out(needed: str) -> NoReturn:
    """Ends a benchmark that lacks something with one line that names it."""
    print(f"{Path(sys.argv[0]).name}: left out, needs {needed}")
    sys.exit()


def require(*packages: str) -> None:
    """Ends a benchmark where a package is not installed."""
    if missing := [package for package in packages if find_spec(package) is None]:
        leave_out(f"{', '.join(missing)} (benchmarks/requirements.txt)")


def data_settings(imdb: str) -> list[str]:
    """Returns the settings that read the archive of IMDB; without one, those of the demo corpus."""
    return ["data=imdb", f"data.path={imdb}"] if imdb else ["data=demo"]


def read_data(settings: Sequence[str]) -> TextData:
    """Returns the data of a training, tokenized and split."""
    from sentattn.build import build_data
    from sentattn.config.compose import compose

    data = build_data(compose([*settings, "logger=none"]))
    data.prepare()
    return data


def training_step(settings: Any, words: int, class_counts: Mapping[str, int]) -> Callable[..., None]:
    """Returns what trains a new model of some settings on a batch: tokens_BL, mask_BL and labels_B.

    As in a training gradients are clipped, and the weights are averaged.
    """
    import torch
    from torch.optim.swa_utils import get_ema_multi_avg_fn

    from sentattn.build import build_model, instantiate
    from sentattn.training.lit_module import build_optimizer

    model = build_model(settings["model"], num_embeddings=words, classes=len(class_counts))
    loss, optimizer = instantiate(settings["loss"], class_counts=class_counts), build_optimizer(settings, model)
    weights = list(model.parameters())
    averaged = [weight.detach().clone() for weight in weights]
    update = get_ema_multi_avg_fn(settings["ema_decay"])  # type: ignore[no-untyped-call]  # torch has no types for it
    is_mixed = settings["trainer"]["precision"] == "bf16-mixed"

    def step(tokens_BL: torch.Tensor, mask_BL: torch.Tensor, labels_B: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            classified = model(tokens_BL, mask_BL)
        loss(classified.logits_BC, labels_B, classified.attended.weights_BRL).loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, settings["trainer"]["gradient_clip_val"])
        optimizer.step()
        update(averaged, weights, 0)

    return step


def interleave(forms: Mapping[str, Callable[[], object]], *, rounds: int = 7, warm_up: int = 3) -> Readings:
    """Times each form once a round, A B A B ..., and returns seconds by form, without the rounds of warm-up.

    A form that returns a float has measured itself: that value is taken instead of the elapsed seconds.
    """
    readings: Readings = {name: [] for name in forms}
    for turn in range(warm_up + rounds):
        for name, form in forms.items():
            started = time.perf_counter()
            measured = form()
            elapsed = time.perf_counter() - started
            if turn >= warm_up:
                readings[name].append(measured if isinstance(measured, float) else elapsed)
    return readings


def fresh_process(*words: str, **variables: str) -> Any:
    """Runs Python in a process of its own; returns what it printed on its last line, read as JSON."""
    environment = os.environ | variables
    done = subprocess.run([sys.executable, *words], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def train(folder: str | Path, *settings: str, **variables: str) -> Path:
    """Runs the command `train` without a logger; returns the folder of its run."""
    command = [sys.executable, "-m", "sentattn.train", *settings, "logger=none", f"output_dir={folder}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | variables)
    return next(Path(folder).rglob("result.json")).parent


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Returns the median and the range of some values."""
    median, low, high = (f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low} to {high})"


def report(title: str, readings: Readings, *, baseline: str, unit: str = "ms", scale: float = 1000.0) -> None:
    """Prints a Markdown table of medians, ranges and speeds relative to the baseline, then one line of JSON.

    Args:
        title: What was measured, with its sizes.
        readings: Seconds by form, equally many rounds of each.
        baseline: The form that others are compared with. A ratio above 1 means faster than the baseline.
        unit: Unit of the columns.
        scale: What turns seconds into that unit.
    """
    print(
        f"{title}. {len(readings[baseline])} rounds.\n\n| | median {unit} (range) | ratio (by round) |\n|---|---|---|"
    )
    for name, seconds in readings.items():
        ratios = [slow / fast for slow, fast in zip(readings[baseline], seconds, strict=True)]
        ratio = statistics.median(readings[baseline]) / statistics.median(seconds)
        by_round = "" if name == baseline else f" ({min(ratios):.2f} to {max(ratios):.2f})"
        values = [scale * value for value in seconds]
        digits = 0 if statistics.median(values) >= 100 else 2
        print(f"| {name} | {spread(values, digits)} | {ratio:.2f}{by_round} |")
    print("\n" + json.dumps({"title": title, "seconds": readings} | machine()))


def machine() -> dict[str, object]:
    """Returns date, revision, processor, threads and version of torch."""
    import torch

    from sentattn.training.environment import git_revision

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "revision": (git_revision() or "")[:7],
        "cpu": f"{len(names)} x {names[0]}",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
