"""The reference of all settings, made from the configuration: what `make docs` writes to `docs/settings.md`."""

from __future__ import annotations

from sentattn.config import signatures
from sentattn.config.groups import QUIRKS, Choices, comment, conf_dir, defaults, load
from sentattn.config.rows import Row, alternatives, brought, paths, request_rows, rows_of, top_rows
from sentattn.config.schema import OWNED
from sentattn.config.settable import TARGET, settable

HEADING = ("setting", "default", "takes", "meaning")
INTRODUCTION = """\
# Settings

Made from `conf/` and the constructors by `make docs`; a test keeps it true.

A setting is typed as `key=value` behind `python -m sentattn.train`, a choice of a group as `group=name`, such as
`model=mean` or `model/attention=uniform`. What is typed goes before the choices, and `--cfg job` prints what a command
comes to; `--config-dir FOLDER` finds choices of your own, laid out as in `conf/`. Lists are written `[1,2]`, nothing is
`null`, and a setting that does not exist, has an illegal value or would have no effect is refused before anything is
read.
"""


def text() -> str:
    """Returns the whole reference, as Markdown."""
    choices = Choices.of()
    parts = [INTRODUCTION, _section("What a training command does", _table(request_rows()), level=2)]
    parts.append(_section("At the top", _table(top_rows()), level=2))
    for path in paths(choices):
        parts.append(_group(path, choices) if path.replace(".", "/") in choices.groups() else _node(path, choices))
    parts.append(_quirks(choices))
    parts.append(_owned())
    return "\n".join(parts)


def unexplained() -> list[str]:
    """Returns the settings without a word on what they mean."""
    choices = Choices.of()
    rows = [*request_rows(), *top_rows(), *(row for path in paths(choices) for row in rows_of(path, choices))]
    return [row.key for row in rows if not row.meaning]


def _group(path: str, choices: Choices) -> str:
    """The choices of a group, and the settings of these."""
    group = path.replace(".", "/")
    usual = defaults(load(conf_dir() / "train.yaml")).get(group)
    lines = [f"`{group}=NAME`" + (f", by default `{usual}`." if usual else "."), ""]
    lines += _choices(group, choices)
    rows = rows_of(path, choices)
    if rows:
        lines += ["", *_table(rows, of=len(choices.names(group)))]
    lines += _more(path, choices)
    if group == "experiment":
        lines += ["", "`experiment=NAME --cfg job` prints the settings that an experiment comes to."]
    return _section(group, lines, level=2 + group.count("/"))


def _choices(group: str, choices: Choices) -> list[str]:
    """What each choice is, and where it does, what it sets beside itself."""
    along = {name: ", ".join(f"`{one}`" for one in brought(group, name, choices)) for name in choices.names(group)}
    columns = ["choice", "what it is"]
    if group != "experiment" and any(along.values()):
        columns.append("brings along")
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name, others in along.items():
        cells = [f"`{name}`", _cell(comment(choices.file(group, name))), others]
        lines.append(f"| {' | '.join(cells[: len(columns)])} |")
    return lines


def _node(path: str, choices: Choices) -> str:
    return _section(path, _table(rows_of(path, choices)), level=2 + path.count("."))


def _more(path: str, choices: Choices) -> list[str]:
    """The arguments of a library's classes that can be set as well, by name."""
    lines = []
    listed = {row.key for row in rows_of(path, choices)}
    targets = {node[TARGET] for _, node in alternatives(path, choices) if TARGET in node}
    for target in sorted(target for target in targets if not target.startswith("sentattn.")):
        names = settable(path, target, signatures.read(target), {})
        more = ", ".join(f"`{name}`" for name in names if f"{path}.{name}" not in listed)
        if more:
            lines += ["", f"Any other argument of `{target}` as well: {more}."]
    return lines


def _quirks(choices: Choices) -> str:
    lines = ["`faithful=true` repeats what a source does in its own way, for an experiment or else a variant.", ""]
    lines += ["| of | what it repeats |", "|---|---|"]
    files = sorted((choices.folders[0] / QUIRKS).glob("*.yaml"))
    lines += [f"| `{file.stem}` | {_cell(comment(file))} |" for file in files]
    return _section("faithful", lines, level=2)


def _owned() -> str:
    lines = ["These arguments of Lightning's are set in the code.", "", "| setting | instead |", "|---|---|"]
    return _section("What cannot be set", [*lines, *(f"| `{k}` | {_cell(v)} |" for k, v in OWNED.items())], level=2)


def _table(rows: list[Row], *, of: int = 1) -> list[str]:
    lines = [f"| {' | '.join(HEADING)} |", f"|{'---|' * len(HEADING)}"]
    return lines + [f"| `{r.key}` | {_default(r, of)} | {_cell(r.takes)} | {_cell(r.meaning)} |" for r in rows]


def _default(row: Row, of: int) -> str:
    """The default, or those of the choices where they differ or not all have the setting."""
    values = set(row.defaults.values())
    if len(row.defaults) == of and len(values) == 1:
        return values.pop()
    if all(value == f"`{name}`" for name, value in row.defaults.items()):
        return "the choice's"
    named: dict[str, list[str]] = {}
    for name, value in row.defaults.items():
        named.setdefault(value, []).append(name)
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in named.items())


def _section(title: str, lines: list[str], *, level: int) -> str:
    return "\n".join([f"{'#' * level} {title}", "", *lines, ""])


def _cell(told: str) -> str:
    return told.replace("|", "\\|")


if __name__ == "__main__":
    print(text(), end="")
