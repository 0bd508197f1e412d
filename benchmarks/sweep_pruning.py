"""What a pruner saves and costs: curves of trials that ran to their end, replayed in many orders.

usage: python benchmarks/sweep_pruning.py record FILE [trials=30] [sweep=structured_imdb] [SETTING ...]
       python benchmarks/sweep_pruning.py replay FILE [orders=100] [slots=1] [pruner=NAME] [pruner.SETTING=VALUE ...]

record   trains random settings of a sweep's space without pruning and keeps each epoch's figures in FILE; what is there
         already stays, so an interrupted command is typed again
replay   hands the curves to Optuna's pruner in random orders, `slots` of them at once epoch by epoch, and tells the
         epochs saved and the regret: by how much the best trial left to end is worse than the best of all, in points
         (hundredths of the objective). Several pruners have commas between them

Examples:
  python benchmarks/sweep_pruning.py record curves.json data.limit=5000
  python benchmarks/sweep_pruning.py replay curves.json pruner=median,hyperband,none
  python benchmarks/sweep_pruning.py replay curves.json pruner=percentile pruner.percentile=50
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentattn.sweep.samplers import default_pruner

ORDERS, TRIALS = 100, 30
LOW, HIGH = 2.5, 97.5


def main(arguments: Sequence[str]) -> None:
    """Runs one of the two steps."""
    if len(arguments) < 2 or arguments[0] not in ("record", "replay"):
        sys.exit(__doc__)
    step, file, *words = arguments
    own = {key: value for key, _, value in (word.partition("=") for word in words)}
    if step == "record":
        settings = [word for word in words if word.partition("=")[0] not in ("trials", "sweep")]
        record(Path(file), own.get("sweep", "structured_imdb"), int(own.get("trials", TRIALS)), settings)
        return
    kept = json.loads(Path(file).read_text())
    given = {key.partition(".")[2]: _number(value) for key, value in own.items() if key.startswith("pruner.")}
    print(
        table(
            kept,
            own.get("pruner", default_pruner(1, 1)).split(","),
            given,
            int(own.get("orders", ORDERS)),
            int(own.get("slots", 1)),
        )
    )


def record(file: Path, sweep: str, trials: int, settings: Sequence[str]) -> None:
    """Trains random settings of a space to their ends, and keeps their curves."""
    import optuna

    from sentattn.config.request import read_request
    from sentattn.errors import UserError
    from sentattn.run import write_atomically
    from sentattn.sweep.config import read_plan
    from sentattn.sweep.search_space import suggest
    from sentattn.training.fit import train

    plan = read_plan([f"sweep={sweep}", *settings])
    plan = replace(plan, output_dir=str(file.with_suffix(".runs")))
    objective = plan.objectives[0]
    kept: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {"trials": []}
    about = {"sweep": sweep, "settings": list(settings), "metric": objective.metric, "mode": objective.mode}
    if kept["trials"] and {key: kept[key] for key in about} != about:
        sys.exit(f"{file} holds trials of {kept['sweep']} with {' '.join(kept['settings'])}; name another file.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for number in range(len(kept["trials"]), trials):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=number))
        values = suggest(study.ask(), plan.space)
        curve: list[float] = []
        try:
            run = train(read_request([*plan.trial_arguments(values), "logger=none"]).settings)
            rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
            curve = [row[objective.metric] for row in rows]
        except UserError as error:  # in a sweep too, such a trial fails, and no pruner sees it
            print(error)
        kept = {**kept, **about, "trials": [*kept["trials"], {"values": values, "curve": curve}]}
        write_atomically(file, json.dumps(kept, indent=1) + "\n")
        print(f"trial {number + 1} of {trials}: {' '.join(f'{value:.4f}' for value in curve)}", flush=True)


def table(kept: Mapping[str, Any], names: Sequence[str], given: Mapping[str, Any], orders: int, slots: int = 1) -> str:
    """Returns a line a pruner: the share of epochs it saves and its regret, with their spread over the orders."""
    curves = [best_so_far(one["curve"], kept["mode"]) for one in kept["trials"] if one["curve"]]
    epochs = sum(map(len, curves))
    lines = [
        f"{len(curves)} trials, {epochs} epochs, {orders} orders, {slots} at once; {kept['metric']} from "
        f"{min(curve[-1] for curve in curves):.4f} to {max(curve[-1] for curve in curves):.4f}",
        f"{'pruner':<22}{'epochs saved':>14}{'(95% of orders)':>20}{'regret, points':>17}{'(worst)':>10}"
        f"{'lost the best':>16}",
    ]
    for name in names:
        found = [replayed(curves, kept["mode"], name, given, seed, slots) for seed in range(orders)]
        saved, regrets = [100 * one[0] for one in found], [100 * one[1] for one in found]
        cuts = statistics.quantiles(saved, n=200, method="inclusive") if orders > 1 else [saved[0]] * 199
        low, high = (cuts[round(2 * edge) - 1] for edge in (LOW, HIGH))
        lost = sum(regret > 0 for regret in regrets)
        lines.append(
            f"{name:<22}{statistics.fmean(saved):>12.1f} %{f'{low:.1f} to {high:.1f} %':>20}"
            f"{statistics.fmean(regrets):>17.3f}{max(regrets):>10.3f}{f'{lost} of {orders}':>16}"
        )
    return "\n".join(lines)


def best_so_far(curve: Sequence[float], mode: str) -> list[float]:
    """Returns what a sweep reports after each epoch: the best epoch up to there."""
    pick = max if mode == "max" else min
    return [pick(curve[: epoch + 1]) for epoch in range(len(curve))]


def replayed(
    curves: Sequence[Sequence[float]], mode: str, name: str, given: Mapping[str, Any], seed: int, slots: int = 1
) -> tuple[float, float]:
    """Replays curves in an order that the seed draws.

    Trials begin when a slot is free and come on by an epoch in turn, as in a sweep of equal epochs.

    Returns:
        The share of epochs that was not run, and the regret: the distance of the best trial that was let to its end
        from the best of all.
    """
    import optuna

    from sentattn.sweep.samplers import PRUNERS

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    order = random.Random(seed).sample(range(len(curves)), len(curves))  # noqa: S311  # it keeps no secret
    study = optuna.create_study(
        direction="maximize" if mode == "max" else "minimize",
        sampler=optuna.samplers.RandomSampler(seed=seed),
        pruner=PRUNERS[name].build(dict(given)),
    )
    waiting = [curves[number] for number in order]
    running: list[tuple[Any, Sequence[float], int]] = []
    run, ends = 0, []
    while waiting or running:
        while waiting and len(running) < slots:
            running.append((study.ask(), waiting.pop(0), 0))
        trial, curve, epoch = running.pop(0)
        trial.report(curve[epoch], epoch + 1)
        run += 1
        if trial.should_prune():
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        elif epoch + 1 < len(curve):
            running.append((trial, curve, epoch + 1))
        else:
            study.tell(trial, curve[-1])
            ends.append(curve[-1])
    pick = max if mode == "max" else min
    return 1 - run / sum(map(len, curves)), abs(pick(curve[-1] for curve in curves) - pick(ends))


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
