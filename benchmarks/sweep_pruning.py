"""Measures what pruners save and lose: learning curves of complete trials, replayed in many orders.

usage: python benchmarks/sweep_pruning.py record FILE [trials=30] [sweep=structured_imdb] [SETTING ...]
       python benchmarks/sweep_pruning.py replay FILE [orders=100] [slots=1] [pruner=NAME] [pruner.SETTING=VALUE ...]

record   trains random settings of a sweep's space without pruning and writes each epoch's metric to FILE; trials
         already in FILE stay, so the same command resumes after an interruption
replay   feeds the curves to Optuna's pruner in random orders, `slots` of them at once epoch by epoch, and prints the
         epochs saved and the regret: how much the best trial that was not pruned is worse than the best of all, in
         points (hundredths of the objective). Separate several pruners by commas

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

from sentattn.sweep.plan import default_pruner

ORDERS, TRIALS = 100, 30
LOW, HIGH = 2.5, 97.5


def main(arguments: Sequence[str]) -> None:
    """Runs `record` or `replay`."""
    if len(arguments) < 2 or arguments[0] not in ("record", "replay"):
        sys.exit(__doc__)
    step, file, *words = arguments
    arguments_by_key = {key: value for key, _, value in (word.partition("=") for word in words)}
    if step == "record":
        settings = [word for word in words if word.partition("=")[0] not in ("trials", "sweep")]
        record(
            Path(file),
            arguments_by_key.get("sweep", "structured_imdb"),
            int(arguments_by_key.get("trials", TRIALS)),
            settings,
        )
        return
    recorded = json.loads(Path(file).read_text())
    options = {
        key.partition(".")[2]: _number(value) for key, value in arguments_by_key.items() if key.startswith("pruner.")
    }
    print(
        table(
            recorded,
            arguments_by_key.get("pruner", default_pruner(1, 1)).split(","),
            options,
            int(arguments_by_key.get("orders", ORDERS)),
            int(arguments_by_key.get("slots", 1)),
        )
    )


def record(file: Path, sweep: str, trials: int, settings: Sequence[str]) -> None:
    """Trains random settings of a space to the end, and records their curves."""
    import optuna

    from sentattn.config.request import read_request
    from sentattn.config.search_space import suggest
    from sentattn.errors import UserError
    from sentattn.run import write_atomically
    from sentattn.sweep.config import read_plan
    from sentattn.training.fit import fit as train

    plan = read_plan([f"sweep={sweep}", *settings])
    plan = replace(plan, output_dir=str(file.with_suffix(".runs")))
    objective = plan.objectives[0]
    recorded: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {"trials": []}
    about = {"sweep": sweep, "settings": list(settings), "metric": objective.metric, "mode": objective.mode}
    if recorded["trials"] and {key: recorded[key] for key in about} != about:
        settings_before = " ".join(recorded["settings"])
        sys.exit(f"{file} holds trials of {recorded['sweep']} with {settings_before}; name another file.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for number in range(len(recorded["trials"]), trials):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=number))
        values = suggest(study.ask(), plan.space)
        curve: list[float] = []
        try:
            run = train(read_request([*plan.trial_arguments(values), "logger=none"]).settings)
            rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
            curve = [row[objective.metric] for row in rows]
        except UserError as error:  # such a trial fails in a sweep too and never reaches the pruner
            print(error)
        recorded = {**recorded, **about, "trials": [*recorded["trials"], {"values": values, "curve": curve}]}
        write_atomically(file, json.dumps(recorded, indent=1) + "\n")
        print(f"trial {number + 1} of {trials}: {' '.join(f'{value:.4f}' for value in curve)}", flush=True)


def table(
    recorded: Mapping[str, Any], names: Sequence[str], options: Mapping[str, Any], orders: int, slots: int = 1
) -> str:
    """Returns one line for each pruner: the share of epochs saved and the regret, with their spread over the orders."""
    curves = [best_so_far(trial["curve"], recorded["mode"]) for trial in recorded["trials"] if trial["curve"]]
    epochs = sum(map(len, curves))
    lines = [
        f"{len(curves)} trials, {epochs} epochs, {orders} orders, {slots} at once; {recorded['metric']} from "
        f"{min(curve[-1] for curve in curves):.4f} to {max(curve[-1] for curve in curves):.4f}",
        f"{'pruner':<22}{'epochs saved':>14}{'(95% of orders)':>20}{'regret, points':>17}{'(worst)':>10}"
        f"{'lost the best':>16}",
    ]
    for name in names:
        replays = [replay(curves, recorded["mode"], name, options, seed, slots) for seed in range(orders)]
        saved, regrets = [100 * share for share, _ in replays], [100 * regret for _, regret in replays]
        cuts = statistics.quantiles(saved, n=200, method="inclusive") if orders > 1 else [saved[0]] * 199
        low, high = (cuts[round(2 * edge) - 1] for edge in (LOW, HIGH))
        lost = sum(regret > 0 for regret in regrets)
        lines.append(
            f"{name:<22}{statistics.fmean(saved):>12.1f} %{f'{low:.1f} to {high:.1f} %':>20}"
            f"{statistics.fmean(regrets):>17.3f}{max(regrets):>10.3f}{f'{lost} of {orders}':>16}"
        )
    return "\n".join(lines)


def best_so_far(curve: Sequence[float], mode: str) -> list[float]:
    """Returns the values that a sweep reports after each epoch: the best epoch so far."""
    pick = max if mode == "max" else min
    return [pick(curve[: epoch + 1]) for epoch in range(len(curve))]


def replay(
    curves: Sequence[Sequence[float]], mode: str, name: str, options: Mapping[str, Any], seed: int, slots: int = 1
) -> tuple[float, float]:
    """Replays curves in a random order.

    Trials start when a slot is free and advance by one epoch in turn, as in a sweep whose epochs take equally long.

    Returns:
        The share of epochs that was not run, and the regret: the difference between the best of all trials and the best
        that was not pruned.
    """
    import optuna

    from sentattn.sweep.plan import DEFAULTS, PRUNERS

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    order = random.Random(seed).sample(range(len(curves)), len(curves))  # noqa: S311 - no secrets here
    study = optuna.create_study(
        direction="maximize" if mode == "max" else "minimize",
        sampler=optuna.samplers.RandomSampler(seed=seed),
        pruner=PRUNERS[name](**DEFAULTS.get(name, {}) | dict(options)),
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
