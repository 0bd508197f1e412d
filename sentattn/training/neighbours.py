"""The short leaderboard at the end of a run: the settings beside it that were trained on the same rows."""

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
from sentattn.config.schema import WITHOUT_EFFECT_ON_RESULT
from sentattn.config.settable import TARGET
from sentattn.config.types import given
from sentattn.errors import RunError, UserError

ROWS, DIFFERENCES = 5, 3
TESTED = "test/accuracy"
HEADING = ("", "", "model", "differs by", "seeds", "{metric}", TESTED, "parameters", "train s")


@dataclass(frozen=True)
class Finished:
    """A finished run."""

    path: Path
    setting: str
    seed: int
    model: str
    value: float
    tested: float | None
    parameters: int
    seconds: float


def print_neighbours(record: run.Run, result: Mapping[str, Any]) -> None:
    """Prints the rows of the leaderboard around a run; nothing where its setting is the only one.

    Args:
        record: The run.
        result: Its result.
    """
    for line in neighbours(record, result):
        print(line)


def neighbours(record: run.Run, result: Mapping[str, Any]) -> list[str]:
    """Returns the rows of the leaderboard around a run, by the validation figure that is its objective.

    It ranks the settings of finished runs under the same `output_dir`, with data of the same name and fingerprint and
    so the same rows, each with the means of its seeds. The test figure stands beside and ranks nothing.
    """
    objective = record.settings["objective"]
    own = _finished(record.path, result, objective["metric"])
    others = _others(Path(record.settings["output_dir"]), record.path, result, objective["metric"])
    if own is None:
        return []
    board = _board([*others, own], sign=1.0 if objective["mode"] == "max" else -1.0)
    if len(board) < 2:
        return []
    place = next(i for i, runs in enumerate(board) if runs[0].setting == own.setting)
    first = max(0, min(place - ROWS // 2, len(board) - ROWS))
    shown = board[first : first + ROWS]
    heading = tuple(name.format(metric=objective["metric"]) for name in HEADING)
    rows = [_row(rank, runs, own, record.settings) for rank, runs in enumerate(shown, start=first + 1)]
    title = f"{len(board)} settings on these rows of {result['data']}, by {objective['metric']}:"
    return [title, *_aligned([heading, *rows]), *_rest(board, shown, objective["metric"])]


def _board(found: Sequence[Finished], sign: float) -> list[list[Finished]]:
    """Groups runs by setting, the best mean first; of a seed that was trained twice the later run counts."""
    settings: dict[str, dict[int, Finished]] = {}
    for one in found:
        settings.setdefault(one.setting, {})[one.seed] = one

    def merit(runs: Sequence[Finished]) -> float:
        mean = sign * _mean(runs)
        return mean if math.isfinite(mean) else -math.inf

    return sorted((list(seeds.values()) for seeds in settings.values()), key=merit, reverse=True)


def _mean(runs: Sequence[Finished]) -> float:
    return statistics.fmean(one.value for one in runs)


def _row(rank: int, runs: Sequence[Finished], own: Finished, settings: Mapping[str, Any]) -> tuple[str, ...]:
    tested = [one.tested for one in runs if one.tested is not None]
    is_own = runs[0].setting == own.setting
    return (
        ">" if is_own else "",
        str(rank),
        runs[0].model,
        "(this run)" if is_own else _told_differences(settings, runs[-1].path),
        str(len(runs)),
        f"{_mean(runs):.4f}",
        f"{statistics.fmean(tested):.4f}" if tested else "-",
        f"{runs[-1].parameters:,}",
        f"{statistics.fmean(one.seconds for one in runs):.0f}",
    )


def _rest(board: Sequence[Sequence[Finished]], shown: Sequence[Sequence[Finished]], metric: str) -> list[str]:
    more = len(board) - len(shown)
    if not more:
        return []
    best = "" if board[0] is shown[0] else f"; the best, {board[0][0].model}, has {metric} {_mean(board[0]):.4f}"
    return [f"  {more} more{best}"]


def _others(folder: Path, own: Path, result: Mapping[str, Any], metric: str) -> list[Finished]:
    """Finished runs on the same rows, the oldest first; what is damaged is left out."""
    found = []
    for path in _run_folders(folder):
        if path == own:
            continue
        try:
            other = json.loads((path / run.RESULT).read_bytes())
            same = all(other[key] == result[key] for key in ("data", "data_fingerprint"))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if same and other.get("status") == "finished" and (one := _finished(path, other, metric)):
            found.append(one)
    return sorted(found, key=lambda one: one.path.name)


def _run_folders(folder: Path) -> Iterator[Path]:
    """Folders with a result; nothing is looked for inside a run."""
    for path, folders, files in os.walk(folder):
        if run.CONFIG in files:
            folders.clear()
            if run.RESULT in files:
                yield Path(path)


def _finished(path: Path, result: Mapping[str, Any], metric: str) -> Finished | None:
    try:
        tested = result["metrics"].get(TESTED)
        return Finished(
            path=path,
            setting=str(result["setting"]),
            seed=int(result["seed"]),
            model=str(result["model"]),
            value=float(result["metrics"][metric]),
            tested=None if tested is None else float(tested),
            parameters=int(result["parameters"]["total"]),
            seconds=float(result["seconds"]["train"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _told_differences(settings: Mapping[str, Any], other: Path) -> str:
    """What another run's settings have in place of these, in a few words."""
    try:
        found = list(differences(settings, run.Run(other).settings))
    except (RunError, KeyError, AttributeError, TypeError):
        return "?"
    more = [f"{len(found) - DIFFERENCES} more"] if len(found) > DIFFERENCES else []
    return ", ".join([*found[:DIFFERENCES], *more])


def differences(settings: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns what other settings have in place of these, as it would be typed, `model.` left out.

    Another part is named by its choice alone, and goes without saying where the variant is another one.
    """
    same_variant = settings["model"]["name"] == other["model"]["name"]
    found = _differences(settings, other, "")
    implied = () if same_variant else ("model.name", "model/")
    return [text.removeprefix("model.").removeprefix("model/") for text in found if not text.startswith(implied)]


def _differences(settings: Mapping[str, Any], other: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if key not in other or other[key] == value or inner in WITHOUT_EFFECT_ON_RESULT:
            continue
        if not isinstance(value, Mapping) or not isinstance(other[key], Mapping):
            yield f"{inner}={given(other[key])}"
        elif value.get(TARGET) != other[key].get(TARGET):
            yield f"{inner.replace('.', '/')}={_choice(inner, other[key])}"
        else:
            yield from _differences(value, other[key], inner)


def _choice(path: str, node: Mapping[str, Any]) -> str:
    """The name of the choice that a part is, or else that of its class."""
    settings: Mapping[str, Any] = node
    for key in reversed(path.split(".")):
        settings = {key: settings}
    try:
        chosen = Choices.of().chosen(settings)
    except UserError:
        chosen = {}
    return chosen.get(path.replace(".", "/"), str(node.get(TARGET)).rpartition(".")[2])


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = [HEADING.index(name) for name in ("model", "differs by")]
    lines = []
    for row in rows:
        cells = (
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return lines
