"""Writes what `make docs` generates: `docs/settings.md`, the reference of all settings, and `parameters.json`.

The reference is made from `conf/` and the constructors' docstrings; `sentattn/config/parameters.json` says what the
classes in `conf/` take, so that checking settings imports none of them. A test holds both files up to date.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sentattn.config import parameters, types
from sentattn.config.groups import Choices, comment, conf_dir, defaults, get_path, load
from sentattn.config.parameters import settable
from sentattn.config.schema import COMMAND_KEYS, FIXED_IN_TRAINING, TOP
from sentattn.config.targets import TARGET_KEY, named
from sentattn.run import write_atomically

SETTINGS = Path(__file__).with_name("settings.md")
HEADING = ("setting", "default", "type", "meaning")
INTRODUCTION = """\
# Settings

Generated from `conf/` and the constructors by `make docs`; a test checks that it is up to date.

A setting is typed as `key=value` after `python -m sentattn.train`, a choice of a group as `group=name`, such as
`model=mean` or `model/attention=uniform`. Typed settings override those of a choice. `--cfg job` prints all settings
of a command; `--config-dir FOLDER` adds choices from a folder of your own, laid out like `conf/`. Lists are written
`[1,2]`, no value is `null`. A setting that does not exist, has an illegal value or cannot go with another is refused
before any data is read.

Refused for want of an effect are `loss.penalty` on an attention without weights to learn, `data.fold` without
`data.folds`, `data.val_size` beside `data.val`, `data.vectors` where words have no size, `match_parameters` without
`check=true`, and settings of words that are typed for subwords or states. Others without effect, such as
`loss.penalty_form` beside `loss.penalty=0`, are accepted, so that a grid needs no conditions, and make no new setting:
runs that differ in them alone are its seeds.
"""
ORDER = ("data", "model", "loss", "optimizer", "scheduler", "trainer", "logger", "experiment")
"""Groups in the order in which a newcomer asks for them; others follow."""
LIBRARY: dict[str, dict[str, str]] = {
    "optimizer": {
        "lr": "Learning rate; with a warm-up, its maximum.",
        "weight_decay": "Strength of the decay of the weights towards 0; `weight_decay_on` selects the weights.",
        "momentum": "Share of the previous step that is added to the next one.",
        "nesterov": "Nesterov's momentum.",
        "betas": "Decay rates of the means of the gradient and of its square.",
        "eps": "Added to the denominator.",
        "fused": "One pass over the parameters per step; changes the speed only.",
    },
    "trainer": {
        "max_epochs": "Epochs to train.",
        "accelerator": "Device to train on; `auto` takes a GPU if there is one.",
        "devices": "Number of devices, or their indices, such as `[0,2]`.",
        "num_nodes": "Number of machines.",
        "strategy": "How several devices train one model.",
        "precision": "Number format; `bf16-mixed` keeps the weights in float32. `auto` is `bf16-mixed` on a "
        "GPU that computes in bfloat16, and `32-true` elsewhere; a run stores which one.",
        "accumulate_grad_batches": "Batches whose gradients make one step.",
        "gradient_clip_val": "Threshold of gradient clipping; null does not clip.",
        "gradient_clip_algorithm": "`norm` clips the norm of the whole gradient, `value` each component.",
        "limit_train_batches": "Batches per epoch, as a number or a share; null takes all.",
        "deterministic": "Refuse operations that a GPU cannot repeat bit by bit.",
        "benchmark": "Let cuDNN benchmark its algorithms for each new shape.",
        "num_sanity_val_steps": "Validation batches before the training.",
        "log_every_n_steps": "Steps between two points (`step/loss`, `step/lr`) in the logger; null for none.",
        "profiler": "`simple` or `advanced` prints a profile at the end.",
        "detect_anomaly": "Stop at the operation whose gradient becomes NaN; slow.",
    },
    "callbacks.early_stopping": {
        "patience": "Epochs in a row without an improvement after which the training ends.",
        "min_delta": "An improvement of the objective by no more than this counts as none.",
        "stopping_threshold": "The training ends once the objective is better than this.",
        "divergence_threshold": "The training ends once the objective is worse than this.",
    },
    "callbacks.lr_monitor": {
        "logging_interval": "`step` logs every `trainer.log_every_n_steps`, `epoch` at the beginning of each epoch; "
        "null is as `step`, and with `scheduler=constant` as both.",
        "log_momentum": "Whether the momentum is logged as well.",
        "log_weight_decay": "Whether the weight decay is logged as well.",
    },
}
"""Meanings by the node whose classes are a library's."""
LISTS = {
    "callbacks": "`callbacks=NAME`, or several: `callbacks=[early_stopping,lr_monitor]`. By default there are none. "
    "The settings of each are under its name, as in `callbacks.early_stopping.patience=3`.",
    "logger": "`logger=NAME`, by default `wandb`, or several: `logger=[csv,wandb]`. The settings of several are under "
    "their names, as in `logger.wandb.project=NAME`; those of a single one are `logger.project=NAME`.",
}
"""How choices of a group are typed that can be several."""
COMMAND: dict[str, tuple[str, dict[str, str]]] = {
    "seeds": ("Runs to train, one after another: with the seeds from `seed` on, a run directory each.", {"": "`1`"}),
    "from": (
        "Whose settings to start from: a run directory, `latest`, a run's `config.yaml`, or a file with training "
        "arguments as a list under `overrides`. What is typed as well changes them.",
        {"": "`null`"},
    ),
    "check": (
        "Stop before the training: the data, the shapes, whether padding has an influence, three timed steps, and the "
        "disk that it takes.",
        {"": "`false`"},
    ),
    "match_parameters": (
        "A run directory, or `latest`: a check prints the `model.head.width`, or the `model.encoder.width` of "
        "`tokenwise`, with which this model trains as many parameters as that run, within 2%.",
        {"": "`null`"},
    ),
    "resume": (
        "An interrupted run directory that is continued with its own settings; `auto` continues the newest "
        "interrupted run of the settings typed, or begins one.",
        {"": "`null`"},
    ),
    "trust": (
        "Let `from` and `resume` load classes of your own that the saved settings name, and `callbacks.NAME._target_` "
        "name one; they can run any code. Those of a `--config-dir` that is typed need no trust.",
        {"": "`false`"},
    ),
}
"""Meaning and default of the keys of the training command."""
TYPED = "???"
ENTRY = re.compile(r"""( *)([\w/]+):(?: +(?:"[^"]*"|'[^']*')|(?:(?! #).)*)(?: +# *(.*))?""")
"""A line of a YAML file: indentation, key, and the comment behind its value."""


@dataclass
class Row:
    """One setting: its type and meaning, and its default in each choice that has it."""

    key: str
    type: str
    meaning: str
    defaults: dict[str, str] = field(default_factory=dict)


def request_rows() -> list[Row]:
    """Returns the keys that belong to the command and are no settings."""
    return [Row(key, types.describe_type(kind), *COMMAND[key]) for key, kind in COMMAND_KEYS.items()]


def top_rows() -> list[Row]:
    """Returns the settings that belong to no constructor."""
    file = conf_dir() / "train.yaml"
    comment_of = comments(file)
    return [
        Row(
            key,
            types.describe_type(kind),
            _sentence(comment_of.get(key) or comment_of.get(key.rpartition(".")[0], "")),
            {"": _shown(get_path(load(file), key))},
        )
        for key, kind in TOP.items()
    ]


def paths(choices: Choices) -> list[str]:
    """The dotted paths of all nodes, groups or not, each behind the one that it is in."""
    groups = [group.replace("/", ".") for group in choices.groups()]
    nodes = [*groups, *(path for path in _nodes(load(conf_dir() / "train.yaml"), "") if path not in groups)]
    place = {name: position for position, name in enumerate(ORDER)}
    top = list(dict.fromkeys(path.partition(".")[0] for path in nodes))
    top.sort(key=lambda name: place.get(name, len(place)))
    return [path for name in top for path in nodes if path.partition(".")[0] == name]


def _nodes(settings: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in settings.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            if TARGET_KEY in value:
                yield inner
            yield from _nodes(value, inner)


def rows_of(path: str, choices: Choices) -> list[Row]:
    """The settings of a node: one row for those that mean the same in several choices."""
    rows: dict[tuple[str, str, str], Row] = {}
    for name, node in alternatives(path, choices):
        if TARGET_KEY not in node:
            continue
        known = parameters.imported(node[TARGET_KEY]).parameters
        documented = meanings(node[TARGET_KEY])
        written = comments(choices.file(path.replace(".", "/"), name) if name else conf_dir() / "train.yaml")
        ours = node[TARGET_KEY].startswith("sentattn.")
        place = f"{path}.{name}" if path == "callbacks" else path
        for key, kind in settable(place, node[TARGET_KEY], node).items():
            if f"{path.replace('.', '/')}/{key}" in choices.groups() or isinstance(node.get(key), Mapping):
                continue
            meaning = LIBRARY.get(place, {}).get(key, "")
            if ours and not meaning:
                meaning = _meaning(documented.get(key, ""), written, f"{path}.{key}")
            elif not meaning and key not in node:
                continue  # one of many that are the library's own
            row = rows.setdefault(
                (key, types.describe_type(kind), meaning), Row(f"{place}.{key}", types.describe_type(kind), meaning)
            )
            row.defaults[name] = _shown(node[key] if key in node else known[key].default)
    order = list(dict.fromkeys(key for key, _, _ in rows))
    return [row for key in order for (own, _, _), row in rows.items() if own == key]


def _meaning(documented: str, written: Mapping[str, str], path: str) -> str:
    """What a docstring says, or else the comment in the YAML; a mere reference to the code is for its readers."""
    if documented and not documented.startswith("See `"):
        return re.sub(r"(?<!`)\bNone\b", "null", documented)
    return _sentence(written.get(path) or written.get(path.rpartition(".")[2], ""))


def meanings(target: str) -> dict[str, str]:
    """Returns what docstrings say of the parameters of a class or function.

    A class's own words go before those of its base classes; of a function, those of the class that it returns come
    after its own.
    """
    found = parameters.load(target)
    returned = inspect.signature(found).return_annotation if not isinstance(found, type) else None
    if isinstance(returned, str):
        returned = vars(sys.modules[found.__module__]).get(returned)
    bases = getattr(found if isinstance(found, type) else returned, "__mro__", ())
    speakers = [found, *(base for base in bases if base is not found and base is not object)]
    merged: dict[str, str] = {}
    for one in reversed(speakers):
        merged |= documented_arguments(inspect.cleandoc(one.__doc__ or ""))
    return merged


def documented_arguments(docstring: str) -> dict[str, str]:
    """Returns the entries under `Args:` of a Google-style docstring, each as one line."""
    found: dict[str, str] = {}
    name = ""
    _, _, rest = docstring.partition("Args:\n")
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        entry = re.fullmatch(r" {4}(\w+): (.*)", line)
        if entry:
            name = entry[1]
            found[name] = entry[2]
        elif name and line.strip():
            found[name] += f" {line.strip()}"
    return found


def alternatives(path: str, choices: Choices) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A node as each choice of its group has it, by name; one that is no group, without a name."""
    group = path.replace(".", "/")
    base = get_path(load(conf_dir() / "train.yaml"), path) or {}
    if group not in choices.groups():
        yield "", base
    elif group != "experiment":
        for name in choices.names(group):
            node = choices.node(group, name)
            yield name, {**base, **{key: value for key, value in node.items() if key != "defaults"}}


def brought(group: str, name: str, choices: Choices) -> Iterator[str]:
    """What a choice sets beside the defaults of its own class: its parts, and settings of others."""
    whole = load(choices.file(group, name))
    for part, choice in (choices.parts(name) if group == "model" else defaults(whole)).items():
        yield f"{group}/{part}={choice}"
    if group in LISTS:
        return
    own = group.replace("/", ".")
    is_package = own in whole
    for key, value in _leaves(whole, ""):
        parent = key if is_package else f"{own}.{key}"
        beside = parent.removeprefix(f"{own}.")
        if key.partition(".")[0] == "defaults" or (parent.startswith(f"{own}.") and "." not in beside):
            continue
        yield f"{parent}={_bare(value)}"


def _leaves(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _leaves(value, inner)
        else:
            yield inner, value


def comments(file: Path) -> dict[str, str]:
    """Returns the comments behind the lines of a YAML file, by dotted key."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        entry = ENTRY.fullmatch(line)
        if entry is None:
            continue
        indent, key, text = len(entry[1]), entry[2], entry[3]
        above = [(depth, name) for depth, name in above if depth < indent]
        above.append((indent, key))
        if text:
            found[".".join(name for _, name in above)] = text.strip()
    return found


def _bare(value: Any) -> str:
    value = re.sub(r"^\$\{oc\.env:\w+,(\w+)\}$", r"\1", value) if isinstance(value, str) else value
    reference = re.fullmatch(r"\$\{(.*)\}", str(value))
    return reference[1] if reference else types.as_typed(value)


def _shown(value: Any) -> str:
    if value == TYPED:
        return "must be given"
    shown = _bare(value)
    return f"`{shown}`" if shown else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def text() -> str:
    """Returns the whole reference, as Markdown."""
    choices = Choices.of()
    parts = [INTRODUCTION, _section("Training command", _table(request_rows()), level=2)]
    parts.append(_section("General", _table(top_rows()), level=2))
    for path in paths(choices):
        parts.append(_group(path, choices) if path.replace(".", "/") in choices.groups() else _node(path, choices))
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
    lines = [LISTS.get(group) or f"`{group}=NAME`" + (f", by default `{usual}`." if usual else "."), ""]
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
    targets = {node[TARGET_KEY] for _, node in alternatives(path, choices) if TARGET_KEY in node}
    for target in sorted(target for target in targets if not target.startswith("sentattn.")):
        place = f"{path}.early_stopping" if path == "callbacks" else path
        names = settable(place, target, {})
        more = ", ".join(f"`{name}`" for name in names if f"{place}.{name}" not in listed)
        if more:
            lines += ["", f"Any other argument of `{target}` as well: {more}."]
    return lines


def _owned() -> str:
    lines = ["These arguments are set in the code.", "", "| setting | instead |", "|---|---|"]
    return _section(
        "What cannot be set", [*lines, *(f"| `{k}` | {_cell(v)} |" for k, v in FIXED_IN_TRAINING.items())], level=2
    )


def _table(rows: list[Row], *, of: int = 1) -> list[str]:
    lines = [f"| {' | '.join(HEADING)} |", f"|{'---|' * len(HEADING)}"]
    return lines + [f"| `{r.key}` | {_default(r, of)} | {_cell(r.type)} | {_cell(r.meaning)} |" for r in rows]


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


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def table() -> str:
    """Returns what the classes take that `conf/` names, as JSON."""
    choices = Choices.of()
    targets = sorted({str(target) for slot in paths(choices) for target in named(slot, choices)})
    whole = json.dumps({target: _entry(target) for target in targets}, indent=1)
    return re.sub(r"\n {4,}", " ", re.sub(r"\n {3}([\]}])", r"\1", whole)) + "\n"  # a line for each parameter


def _entry(target: str) -> dict[str, Any]:
    signature, found = parameters.imported(target), parameters.load(target)
    bases = found.__mro__ if isinstance(found, type) else [found]
    modules = {base.__module__ for base in bases if base.__module__.startswith("sentattn.")}
    package = parameters.TABLE.parents[1]
    files = sorted(Path(inspect.getfile(sys.modules[module])).relative_to(package).as_posix() for module in modules)
    takes = {
        name: [spell(one.type), *([] if one.required else [_plain(one.default)])]
        for name, one in signature.parameters.items()
    }
    return {
        "takes": takes,
        "constants": signature.constants,
        "open": signature.open,
        "sources": {file: parameters.digest(file) for file in files},
    }


def spell(kind: Any) -> str:
    """Returns a type's source text, which `types.resolve` reads."""
    name = next((name for name, alias in vars(types).items() if alias == kind and name[0].isupper()), None)
    if name is not None or kind in types.WORDS:
        return name or ("None" if kind is NoneType else str(kind.__name__))
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Union:
        return " | ".join(map(spell, arguments))
    if origin is Annotated:
        limits = [f"{type(one).__name__}({types.limit(one)})" for one in arguments[1:]]
        return f"Annotated[{', '.join([spell(arguments[0]), *limits])}]"
    inner = ", ".join(map(repr if origin is Literal else spell, arguments))
    return f"{'Literal' if origin is Literal else origin.__name__}[{inner}]"


def _plain(default: Any) -> Any:
    """A default as JSON has it; one that is an object is not shown."""
    try:
        return json.loads(json.dumps(default))
    except TypeError:
        return None


if __name__ == "__main__":
    parameters.digest.cache_clear()
    write_atomically(parameters.TABLE, table())
    write_atomically(SETTINGS, text())
