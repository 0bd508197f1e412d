"""The leaderboard at the end of a training: the settings that were trained on the same rows, the best first."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentattn import run
from sentattn.config.groups import Choices
from sentattn.config.label import SLOTS, UNKNOWN, label
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT
from sentattn.config.targets import MOVED, TARGET, renamed
from sentattn.config.types import as_typed
from sentattn.console import table_lines
from sentattn.errors import UserError

TOP, AROUND, DIFFERENCES = 5, 1, 3
"""Rows from the top, rows on either side of the run, and settings in a row that are shown."""
HEADER = ("", "", "settings", "seeds", "val", "test", "params", "train")


@dataclass(frozen=True)
class Entry:
    """A finished run: its means over the seeds of its setting make a row."""

    path: Path
    setting: str
    seed: int
    value: float
    tested: float | None
    parameters: int
    seconds: float


def leaderboard(record: run.Run) -> list[str]:
    """Returns the leaderboard that a run is on as lines, or none where its setting is the only one.

    It ranks the settings of finished runs under the same `output_dir`, with data of the same name and fingerprint and
    so the same rows, each with the means of its seeds, by the validation metric that is the run's objective. Trials of
    sweeps are left out: a study ranks them itself. The same metric on the test rows is shown and ranks nothing.

    Args:
        record: A finished run.
    """
    result, objective = record.result, record.settings["objective"]
    metric = objective["metric"]
    own = _entry(record.path, result, metric)
    if own is None or result.get("status") != "finished":
        return []
    others = _others(Path(record.settings["output_dir"]), record.path, result, metric)
    board = _board([*others, own], sign=1.0 if objective["mode"] == "max" else -1.0)
    if len(board) < 2:
        return []
    place = next(i for i, entries in enumerate(board) if entries[0].setting == own.setting)
    shown = [i for i in range(len(board)) if i < TOP or abs(i - place) <= AROUND]
    rows: list[tuple[str, ...]] = [HEADER]
    for before, i in zip([-1, *shown], shown, strict=False):
        if i > before + 1:
            rows.append(("", "", "...", *[""] * 5))
        rows.append(_row(i + 1, board[i], own, record.settings))
    title = f"{len(board)} settings on these rows of {result['data']}, by {metric}:"
    more = len(board) - 1 - shown[-1]
    return [title, *table_lines(rows, align="<><>>>>>", wrap=2), *([f"{more} more"] if more else [])]


def differences(settings: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns what other settings have in place of these, as it would be typed, `model.` left out, numbers rounded.

    Parts of the model that are others go without saying: the label has them.
    """
    settings, other = renamed(settings, MOVED), renamed(other, MOVED)
    found = _differences(settings, other, Choices.of().chosen(other))
    implied = ("model.name=", *(f"model/{slot}=" for slot in SLOTS))
    return [text.removeprefix("model.") for text in found if not text.startswith(implied)]


def _board(entries: Sequence[Entry], sign: float) -> list[list[Entry]]:
    """Groups runs by setting, the best mean first; of a seed that was trained twice the later run counts."""
    settings: dict[str, dict[int, Entry]] = {}
    for entry in entries:
        settings.setdefault(entry.setting, {})[entry.seed] = entry

    def merit(seeds: Sequence[Entry]) -> float:
        mean = sign * _mean(seeds)
        return mean if math.isfinite(mean) else -math.inf

    return sorted((list(seeds.values()) for seeds in settings.values()), key=merit, reverse=True)


def _mean(seeds: Sequence[Entry]) -> float:
    return statistics.fmean(entry.value for entry in seeds)


def _row(rank: int, seeds: Sequence[Entry], own: Entry, settings: Mapping[str, Any]) -> tuple[str, ...]:
    tested = [entry.tested for entry in seeds if entry.tested is not None]
    is_own = seeds[0].setting == own.setting
    return (
        ">" if is_own else "",
        str(rank),
        f"{label(settings)} (this run)" if is_own else _description(settings, seeds[-1].path),
        str(len(seeds)),
        f"{_mean(seeds):.4f}",
        f"{statistics.fmean(tested):.4f}" if tested else "-",
        _count(seeds[-1].parameters),
        f"{statistics.fmean(entry.seconds for entry in seeds):.0f} s",
    )


def _description(settings: Mapping[str, Any], path: Path) -> str:
    """The label of another run, and what else its settings have in place of these."""
    try:
        other = run.Run(path).settings
        name, found = label(other), differences(settings, other)
    except (UserError, KeyError, AttributeError, TypeError):
        return UNKNOWN
    if name == UNKNOWN or not found:
        return name
    more = [f"{len(found) - DIFFERENCES} more"] if len(found) > DIFFERENCES else []
    return f"{name}; {', '.join([*found[:DIFFERENCES], *more])}"


def _count(number: float) -> str:
    """Returns a number of parameters for people, such as 12.3k."""
    for unit in ("", "k"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}M" if number < 1000 else f"{number:,.0f}M"


def _others(folder: Path, own: Path, result: Mapping[str, Any], metric: str) -> list[Entry]:
    """Finished runs on the same rows, the oldest first; damaged ones and trials of sweeps are left out."""
    entries = []
    for path in _run_folders(folder):
        if path == own:
            continue
        try:
            other = json.loads((path / run.RESULT).read_bytes())
            same = all(other[key] == result[key] for key in ("data", "data_fingerprint"))
            finished = other.get("status") == "finished" and other.get("study") is None
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if same and finished and (entry := _entry(path, other, metric)):
            entries.append(entry)
    return sorted(entries, key=lambda entry: entry.path.name)


def _run_folders(folder: Path) -> Iterator[Path]:
    """Folders with a result; nothing is looked for inside a run."""
    for path, folders, files in os.walk(folder):
        if run.CONFIG in files:
            folders.clear()
            if run.RESULT in files:
                yield Path(path)


def _entry(path: Path, result: Mapping[str, Any], metric: str) -> Entry | None:
    try:
        tested = result["metrics"].get(metric.replace("val/", "test/"))
        return Entry(
            path=path,
            setting=str(result["setting"]),
            seed=int(result["seed"]),
            value=float(result["metrics"][metric]),
            tested=None if tested is None else float(tested),
            parameters=int(result["parameters"]["total"]),
            seconds=float(result["seconds"]["train"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _differences(
    settings: Mapping[str, Any], other: Mapping[str, Any], chosen: Mapping[str, str], path: str = ""
) -> Iterator[str]:
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if key not in other or other[key] == value or inner in WITHOUT_EFFECT_ON_RESULT:
            continue
        if not isinstance(value, Mapping) or not isinstance(other[key], Mapping):
            yield f"{inner}={f'{other[key]:.4g}' if isinstance(other[key], float) else as_typed(other[key])}"
        elif value.get(TARGET) != other[key].get(TARGET):
            group = inner.replace(".", "/")
            yield f"{group}={chosen.get(group, str(other[key].get(TARGET)).rpartition('.')[2])}"
        else:
            yield from _differences(value, other[key], chosen, inner)
