"""Interleaved rounds and one way to report them, for the scripts of this folder."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Readings = dict[str, list[float]]


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


def fresh_process(script: str, arguments: Sequence[str], *, python: str = sys.executable) -> Any:
    """Runs a script in a process of its own; returns what it printed on its last line, read as JSON."""
    done = subprocess.run([python, script, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{script} {' '.join(arguments)} ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def report(
    title: str, readings: Readings, *, baseline: str, goal: str = "", unit: str = "ms", scale: float = 1000.0
) -> None:
    """Prints a Markdown table of medians, ranges and speeds relative to the baseline, then one line of JSON.

    Args:
        title: What was measured, with its sizes.
        readings: Seconds by form, equally many rounds of each.
        baseline: The form that others are compared with. A ratio above 1 means faster than the baseline.
        goal: The ratio or time to reach, in words.
        unit: Unit of the columns.
        scale: What turns seconds into that unit.
    """
    rows = {}
    for name, seconds in readings.items():
        ratios = [slow / fast for slow, fast in zip(readings[baseline], seconds, strict=True)]
        rows[name] = {
            "median": scale * statistics.median(seconds),
            "low": scale * min(seconds),
            "high": scale * max(seconds),
            "ratio": statistics.median(readings[baseline]) / statistics.median(seconds),
            "ratio_low": min(ratios),
            "ratio_high": max(ratios),
        }
    print(f"{title}. {len(readings[baseline])} rounds.{f' Goal: {goal}.' if goal else ''}\n")
    print(f"| | median {unit} (range) | ratio (by round) |\n|---|---|---|")
    for name, row in rows.items():
        spread = f"{_digits(row['median'])} ({_digits(row['low'])} to {_digits(row['high'])})"
        ratio = "1" if name == baseline else f"{row['ratio']:.2f} ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})"
        print(f"| {name} | {spread} | {ratio} |")
    print("\n" + json.dumps({"title": title, "goal": goal, "unit": unit, "rows": rows} | machine()))


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


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
