"""The leaderboard at the end of a training: the settings that were trained on the same rows, the best first."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from sentattn import run
from sentattn.config.groups import Choices
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT
from sentattn.config.targets import MOVED, SLOTS, TARGET, UNKNOWN, label, renamed
from sentattn.config.types import as_typed
from sentattn.console import table_lines
from sentattn.errors import UserError

TOP, AROUND, DIFFERENCES = 5, 1, 3
"""Rows from the top, rows on either side of the run, and settings in a row that are shown."""
HEADER = ("", "", "settings", "seeds", "val", "test", "params", "train")


class Entry(NamedTuple):
    """A finished run: its means over the seeds of its setting make a row."""

    path: Path
    setting: str
    seed: int
    value: float
    tested: float | None
    parameters: int
    seconds: float


def leaderboard(record: run.Run) -> list[str]:
    """Returns the leaderboard that a finished run is on as lines, or none where its setting is the only one.

    It ranks the settings of finished runs under the same `output_dir`, with data of the same name and fingerprint and
    so the same rows, each with the means of its seeds, by the validation metric that is the run's objective. Trials of
    sweeps are left out: a study ranks them itself. The same metric on the test rows is shown and ranks nothing.
    """
    result, objective = record.result, record.settings["objective"]
    own = _entry(record.path, result, objective["metric"])
    if own is None or result.get("status") != "finished":
        return []
    others = _others(Path(record.settings["output_dir"]), record.path, result, objective["metric"])
    board = _board([*others, own], sign=1.0 if objective["mode"] == "max" else -1.0)
    if len(board) < 2:
        return []
    place = next(i for i, entries in enumerate(board) if entries[0].setting == own.setting)
    visible = [i for i in range(len(board)) if i < TOP or abs(i - place) <= AROUND]
    rows: list[tuple[str, ...]] = [HEADER]
    for before, i in zip([-1, *visible], visible, strict=False):
        if i > before + 1:
            rows.append(("", "", "...", *[""] * 5))
        name = f"{label(record.settings)} (this run)" if i == place else _describe(record.settings, board[i][-1].path)
        rows.append((">" if i == place else "", str(i + 1), name, *_numbers(board[i])))
    title = f"{len(board)} settings on these rows of {result['data']}, by {objective['metric']}:"
    more = len(board) - 1 - visible[-1]
    return [title, *table_lines(rows, align="<><>>>>>", wrap=2), *([f"{more} more"] if more else [])]


def differences(settings: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns what other settings have in place of these, as it would be typed, `model.` left out, numbers rounded.

    Parts of the model that are others go without saying: the label has them.
    """
    settings, other = renamed(settings, MOVED), renamed(other, MOVED)
    typed = _differences(settings, other, Choices.of().chosen(other))
    implied = ("model.name=", *(f"model/{slot}=" for slot in SLOTS))
    return [text.removeprefix("model.") for text in typed if not text.startswith(implied)]


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


def _board(entries: Sequence[Entry], sign: float) -> list[list[Entry]]:
    """Groups runs by setting, the best mean first; of a seed that was trained twice the later run counts."""
    settings: dict[str, dict[int, Entry]] = {}
    for entry in entries:
        settings.setdefault(entry.setting, {})[entry.seed] = entry

    def merit(seeds: Sequence[Entry]) -> float:
        mean = sign * fmean(entry.value for entry in seeds)
        return mean if math.isfinite(mean) else -math.inf

    return sorted((list(seeds.values()) for seeds in settings.values()), key=merit, reverse=True)


def _numbers(seeds: Sequence[Entry]) -> tuple[str, ...]:
    """Number of seeds, means of the metric on validation and test rows, parameters, mean seconds."""
    tested = [entry.tested for entry in seeds if entry.tested is not None]
    value, seconds = fmean(entry.value for entry in seeds), fmean(entry.seconds for entry in seeds)
    test = f"{fmean(tested):.4f}" if tested else "-"
    return str(len(seeds)), f"{value:.4f}", test, _count(seeds[-1].parameters), f"{seconds:.0f} s"


def _describe(settings: Mapping[str, Any], path: Path) -> str:
    """The label of another run, and what else its settings have in place of these."""
    try:
        other = run.Run(path).settings
        name, differing = label(other), differences(settings, other)
    except (UserError, KeyError, AttributeError, TypeError):
        return UNKNOWN
    if name == UNKNOWN or not differing:
        return name
    more = [f"{len(differing) - DIFFERENCES} more"] if len(differing) > DIFFERENCES else []
    return f"{name}; {', '.join([*differing[:DIFFERENCES], *more])}"


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
    for name, folders, files in os.walk(folder):
        path = Path(name)
        if run.CONFIG not in files:
            continue
        folders.clear()  # nothing is looked for inside a run
        try:
            other = json.loads((path / run.RESULT).read_bytes())
            same = all(other[key] == result[key] for key in ("data", "data_fingerprint"))
            finished = other.get("status") == "finished" and other.get("study") is None
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if path != own and same and finished and (entry := _entry(path, other, metric)):
            entries.append(entry)
    return sorted(entries, key=lambda entry: entry.path.name)


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
