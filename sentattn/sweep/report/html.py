"""`report.html`: a study to look at, in one file that needs no network."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from sentattn.config.types import given
from sentattn.insight.pieces import visible
from sentattn.sweep.config import Plan
from sentattn.sweep.records import Record
from sentattn.sweep.report.best import BEST, FRONT, arguments, command
from sentattn.sweep.report.drawn import data
from sentattn.sweep.report.importances import Importances
from sentattn.sweep.report.surface import Surface
from sentattn.sweep.report.trials import Reader

ASSETS = "assets"
SCRIPTS = ("drawing.js", "charts.js", "settings.js", "table.js", "page.js")


@dataclass(frozen=True)
class Findings:
    """What is known of a study.

    Attributes:
        plan: The sweep.
        folder: The study's folder.
        records: Its trials.
        front: The best trial; with several objectives those that no other one beats, the most balanced first.
        importances: Of each objective, where there are enough trials.
        surfaces: Of each objective over the two settings that matter most, likewise.
        cautions: What to mind.
        confirmed: What `confirm=` has found; None where it has not been asked for, or is not done.
        reader: Of the runs.
    """

    plan: Plan
    folder: Path
    records: Sequence[Record]
    front: Sequence[Record]
    importances: Sequence[Importances | None]
    surfaces: Sequence[Surface | None]
    cautions: Sequence[str]
    confirmed: Mapping[str, Any] | None
    reader: Reader


def page(found: Findings) -> str:
    """Returns the report as HTML: text as it is, charts drawn by the page's own script."""
    assets = resources.files(__package__).joinpath(ASSETS)
    script = "\n".join(assets.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    return Template(assets.joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=_safe(found.plan.study),
        style=assets.joinpath("report.css").read_text(encoding="utf-8"),
        standing=_safe(standing(found)),
        cautions=_cautions(found),
        best=_best(found),
        confirmed=_confirmed(found.confirmed),
        searched=_searched(found.plan),
        data=json.dumps(data(found), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        script=script,
    )


def standing(found: Findings) -> str:
    """Returns how many trials there are, by state."""
    counts = Counter(one.state for one in found.records)
    told = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    return f"{len(found.records):,} trial{'s' * (len(found.records) != 1)}: {told}" if told else "no trial yet"


def _cautions(found: Findings) -> str:
    if not found.cautions:
        return ""
    items = "".join(f"<li>{_safe(line)}</li>" for line in found.cautions)
    return f'<section class="cautions"><h2>To mind</h2><ul>{items}</ul></section>'


def _best(found: Findings) -> str:
    """The best setting, or the front's most balanced one, with the command that trains it."""
    plan = found.plan
    if not found.front:
        return "<section><h2>Best setting</h2><p>No trial is complete yet.</p></section>"
    best = found.front[0]
    several = len(plan.objectives) > 1
    named = zip(plan.objectives, best.objectives or (), strict=True)
    reached = ", ".join(f"<b>{_figure(value)}</b> {_safe(one.metric)}" for one, value in named)
    rows = "".join(f"<dt>{_safe(key)}</dt><dd>{_safe(_short(value))}</dd>" for key, value in best.values.items())
    words = " ".join(arguments(plan, best.values))
    note = (
        f"<p>Of the {len(found.front)} settings that no other one beats in all objectives it is the one nearest to the "
        f"best of each; the others are in <code>{FRONT}/</code>.</p>"
        if several
        else ""
    )
    return "".join(
        (
            f"<section><h2>{'Most balanced' if several else 'Best'} setting: trial {best.number}</h2>",
            f'<p class="reached">{reached}</p>{note}',
            f'<dl class="values">{rows}</dl>',
            f"<p>Train it again, and test it:</p><pre>{_safe(command(found.folder / BEST))}</pre>",
            f"<details><summary>its arguments</summary><pre>{_safe(words)}</pre></details></section>",
        )
    )


def _confirmed(confirmed: Mapping[str, Any] | None) -> str:
    if not confirmed:
        return ""
    rows = []
    for name, one in confirmed["metrics"].items():
        interval = " to ".join(f"{value:.4f}" for value in one["interval"]) if one["interval"] else ""
        seeds = ", ".join(f"{value:.4f}" for value in one["values"])
        rows.append(f"<tr><th>{_safe(name)}</th><td>{one['mean']:.4f}</td><td>{interval}</td><td>{seeds}</td></tr>")
    seeds = ", ".join(map(str, confirmed["seeds"]))
    return (
        f"<section><h2>Confirmed: trial {confirmed['trial']} with seeds {seeds}</h2>"
        '<div class="wide"><table><thead><tr><th></th><th>mean</th><th>95% interval of the mean</th><th>each seed</th>'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _searched(plan: Plan) -> str:
    """What was searched: ranges, objectives, sampler, pruner and what all trials share."""
    rows = []
    for key, one in plan.space.items():
        under = " and ".join(f"{other}={' or '.join(map(given, legal))}" for other, legal in one.when.items())
        condition = f" where {under}" if under else ""
        rows.append(f"<dt>{_safe(key)}</dt><dd>{_safe(one.written + condition)}</dd>")
    objectives = ", ".join(f"{one.metric} ({one.mode})" for one in plan.objectives)
    others = {
        "objective": objectives,
        "sampler": _component(plan.sampler),
        "pruner": _component(plan.pruner),
        "budget": _budget(plan),
        "seed": f"{plan.seed}" + (f", {plan.repeats} trainings a trial" if plan.repeats > 1 else ""),
        "all trials": " ".join(plan.overrides),
    }
    told = "".join(f"<dt>{name}</dt><dd>{_safe(text)}</dd>" for name, text in others.items())
    return f'<dl class="values">{"".join(rows)}</dl><dl class="values quiet">{told}</dl>'


def _component(named: Mapping[str, Any]) -> str:
    own = ", ".join(f"{key}={given(value)}" for key, value in named.items() if key != "name")
    return f"{named['name']}{f' ({own})' if own else ''}"


def _budget(plan: Plan) -> str:
    parts = [f"{plan.budget.trials} trials"] if plan.budget.trials else []
    return ", ".join([*parts, *([f"{plan.budget.hours:g} hours"] if plan.budget.hours else [])])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else given(value)


def _safe(text: str) -> str:
    return escape(visible(text))
