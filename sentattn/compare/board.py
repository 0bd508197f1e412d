"""Comparisons as an object: text in a terminal, a table in a notebook, data frame, report, figure and workspace."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.compare.across import Overall, over_data_sets
from sentattn.compare.comparison import Comparison, require_same_rows
from sentattn.compare.leaderboard import (
    board_lines,
    cells,
    heading,
    message_lines,
    overall_lines,
    setting_row,
    verdict_rows,
)
from sentattn.errors import SettingError, require_packages
from sentattn.rendering import PAGE_ENDINGS, PICTURE_ENDINGS, require_format
from sentattn.rendering.html import safe
from sentattn.run import replacing, writing

if TYPE_CHECKING:
    import pandas as pd
    from wandb_workspaces.workspaces import Workspace


class Leaderboard:
    """Settings on the same rows, the best first, with their tests. It prints as in a terminal.

    Attributes:
        comparisons: One for each group of runs with the same rows.
    """

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self.comparisons = comparisons

    @cached_property
    def overall(self) -> list[Overall]:
        """The verdicts over data sets, of three or more."""
        return over_data_sets(self.comparisons)

    @property
    def frame(self) -> pd.DataFrame:
        """One row a setting, in the columns of `compare format=csv`, with the number of `rows` after them.

        Raises:
            SettingError: If pandas is not installed.
        """
        require_packages("frame", "leaderboard(...).frame", ["pandas"], "sentattn[pandas]")
        import pandas as pd

        return pd.DataFrame(
            {**setting_row(setting), "data": each.data, "split": each.split, "rows": len(each.rows.labels_N)}
            for each in self.comparisons
            for setting in each.leaderboard
        )

    @property
    def pairs(self) -> list[dict[str, object]]:
        """The tests, in the columns of `NAME-tests.csv` of `compare format=csv output=NAME.csv`, in shares of 1."""
        header, *rows = verdict_rows(self.comparisons, self.overall)
        return [dict(zip(map(str, header), row, strict=True)) for row in rows]

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Writes a page with charts, the numbers behind them, and texts on which settings disagree.

        Raises:
            UserError: If the path is no HTML file or cannot be written.
        """
        from sentattn.compare.report.page import write_report

        require_format(path := Path(path), "report", PAGE_ENDINGS)
        for warning in write_report(path, self.comparisons, self.overall):
            print(f"warning: {warning}", file=sys.stderr)
        return path

    def figure(self, path: str | os.PathLike[str], panels: Collection[str] = ()) -> Path:
        """Writes a figure for a paper as PDF, SVG or PNG: one column wide, legible in grey.

        Args:
            path: The file.
            panels: Some of `pairs`, `cost` and `rows`; all where none is named.

        Raises:
            UserError: If the file has another format or cannot be written, there is no panel of a name or nothing to
                draw, or the runs have different rows.
        """
        from sentattn.compare.figure import DPI, PANELS, draw, draw_overall, panel_faults
        from sentattn.rendering.png import to_bytes

        require_format(path := Path(path), "figure", PICTURE_ENDINGS)
        if faults := panel_faults(panels):
            raise SettingError(*faults)
        kinds = panels or PANELS
        if self.overall and "pairs" in kinds:
            drawn = partial(draw_overall, self.overall)
        else:
            require_same_rows("figure", path, self.comparisons)
            drawn = partial(draw, self.comparisons[0], kinds)
        with writing(path, "figure"), replacing(path) as temporary:
            temporary.write_bytes(to_bytes(drawn, path.suffix.lower()[1:], DPI))
        return path

    def workspace(self, *, entity: str, project: str) -> Workspace:
        """Returns the workspace on W&B of the runs that were logged to it; its `save()` saves it there.

        Args:
            entity: W&B user or team.
            project: W&B project of the runs.

        Raises:
            UserError: If `wandb-workspaces` is not installed, or the runs have different rows.
        """
        require_packages("workspace", "leaderboard(...).workspace", ["wandb_workspaces"], "sentattn[dashboard]")
        from sentattn.compare.dashboard import comparison_pages

        require_same_rows("project", project, self.comparisons)
        return comparison_pages(self.comparisons[0], entity=entity, project=project)[0]

    def tables(self, columns: Sequence[str] = (), *, markdown: bool = False) -> list[str]:
        """Returns the leaderboard of each comparison with the diagnostics of its attentions."""
        return [
            "\n".join([*board_lines(each, columns, markdown=markdown), *_insight_lines(each, markdown=markdown)])
            for each in self.comparisons
        ]

    def text(self, tables: Sequence[str]) -> str:
        """Returns tables, one for each comparison, with the results of the tests."""
        texts = ["These runs have different rows; each table below is about runs with the same rows."]
        texts = texts if len(self.comparisons) > 1 else []
        for board, comparison in zip(tables, self.comparisons, strict=True):
            texts += [board, "\n".join(message_lines(comparison))]
        texts += ["\n".join(overall_lines(overall)) for overall in self.overall]
        return "\n\n".join(filter(None, texts))

    def __repr__(self) -> str:
        return self.text(self.tables())

    def _repr_html_(self) -> str:
        """Returns the HTML for a notebook: a table and the tests of each comparison, the verdicts over data sets."""
        overall = ["\n".join(overall_lines(each)) for each in self.overall]
        return "\n".join([*map(_html, self.comparisons), *(f"<pre>{safe(text)}</pre>" for text in overall)])


def _insight_lines(comparison: Comparison, *, markdown: bool = False) -> list[str]:
    """Returns the diagnostics of the attentions, if there are any."""
    if not comparison.insights:
        return []
    from sentattn.compare.insight import lines

    return lines(comparison.insights, len(comparison.rows.labels_N), markdown=markdown)


def _html(comparison: Comparison) -> str:
    rows = ["".join(f"<td>{safe(cell)}</td>" for cell in row) for row in cells(comparison)]
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    text = "\n".join([*message_lines(comparison), *_insight_lines(comparison)])
    return f"<p>{safe(heading(comparison))}</p><table>{table}</table><pre>{safe(text)}</pre>"
