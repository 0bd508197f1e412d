"""Curves of faithfulness: by how much the probability falls with more and more of a ranking's first tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sentattn.compare.insight import Insight
from sentattn.compare.insight_table import CURVES, RANKINGS, rounded
from sentattn.compare.report.style import MAX_DRAWN, Chart, Table, line
from sentattn.compare.runs import Setting
from sentattn.insight.faithfulness import KINDS, SHARES, percent
from sentattn.rendering.html import empty_figure, safe


def curve_charts(insights: Sequence[Insight], settings: Sequence[Setting]) -> list[Chart]:
    """Comprehensiveness and sufficiency by the share of the tokens, deleted ones, less those of random tokens.

    A line for each attention that ranks tokens; the table has the other rankings too.
    """
    ranks = {setting.key: rank for rank, setting in enumerate(settings)}
    charts = []
    curves = {column.name: column for column in CURVES.columns}
    for kind in KINDS:
        figure = empty_figure(320, top=12, xaxis_title="share of the tokens", yaxis_title=kind, showlegend=False)
        rows = []
        for insight in insights:
            for ranking in RANKINGS:
                names = [f"{kind}_deleted_{ranking}_{percent(share)}" for share in SHARES]
                estimates = [curves[name].estimate(insight) for name in names]
                if np.isnan([estimate.value for estimate in estimates]).all():
                    continue
                rows.append(
                    [insight.name, ranking.replace("_", " "), *(rounded(estimate, 3) for estimate in estimates)]
                )
                if ranking == "attention" and (rank := ranks[insight.setting.key]) < MAX_DRAWN:
                    figure.add_scatter(
                        x=list(SHARES),
                        y=[estimate.value for estimate in estimates],
                        error_y={
                            "array": [np.nan_to_num(estimate.half_width()) for estimate in estimates],
                            "thickness": 1.5,
                            "width": 3,
                        },
                        mode="lines+markers+text",
                        text=[""] * (len(SHARES) - 1) + [str(rank + 1)],
                        textposition="middle right",
                        line=line(rank),
                        hovertemplate=f"{safe(insight.name)}<br>%{{x:.0%}}: %{{y:.3f}}<extra></extra>",
                    )
        if rows:
            figure.update_xaxes(tickformat=".0%", tickvals=list(SHARES[1:]))
            heading = ["settings", "ranking", *(f"{percent(share)}%" for share in SHARES)]
            charts.append(Chart(kind, figure, Table(heading, rows)))
    return charts
