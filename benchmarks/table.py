"""The table of poolings over frozen text encoders: which one should be used over an encoder, and how sure is that?

Each pooling gets the layer, the rate and the dropout that a search with equal trials finds on validation rows; plans
declare the tests, and then five seeds are trained and tested once. A stage that was interrupted, by Ctrl-C or by
`timeout 150m python benchmarks/table.py ...`, goes on where it stopped.

usage: python benchmarks/table.py tables imdb=aclImdb_v1.tar.gz yelp=yelp_review_full_csv.tgz corpora=FOLDER out=FOLDER
       python benchmarks/table.py search ENCODER=FOLDER out=FOLDER [data=imdb,r52]
       python benchmarks/table.py rows ENCODER=FOLDER out=FOLDER [data=imdb,r52]
       python benchmarks/table.py page [check=true]

  tables   writes at most 6,000 training and 10,000 test rows of each data set as parquet; `corpora` holds those of the
           others as NAME-train.parquet and NAME-test.parquet, with columns text and label
  search   trials of each pooling over an encoder, minilm, mpnet or glove; writes benchmarks/table/settings.csv
  rows     trains and tests what is missing; settings and plans must be committed before. Writes results.csv and bits
  page     writes tables and charts of docs/poolings.md from these files; check=true says whether the tables agree
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from measure import leave_out

import sentattn
from sentattn.compare.board import Leaderboard
from sentattn.data.corpus import spread
from sentattn.data.datasets.imdb import ImdbSource
from sentattn.data.datasets.yelp import Yelp
from sentattn.run import Run

ROOT, PYTHON = Path(__file__).parents[1], (sys.executable, "-m")
FOLDER = ROOT / "benchmarks" / "table"
DATA = {"imdb": "IMDB", "yelp": "Yelp, five stars", "r52": "R52", "newsgroups": "20 Newsgroups", "tweets": "Tweets"}
TRIALS, SEEDS = 8, 5
POOLINGS = {
    "mean": ["model/attention=uniform"],
    "first": ["model/attention=first"],
    "max": ["model/attention=max"],
    "tokenwise": ["model/attention=uniform", "model/encoder=tokenwise"],
    "linear": ["model/attention=linear"],
    "structured": ["model/attention=structured"],
    "gated": ["model/attention=gated"],
    "query": ["model/attention=query"],
    "latent": ["model/attention=latent"],
    "statistics": ["model/attention=statistics"],
    "random": ["model/attention=structured", "model.freeze_attention=true"],
}
MARK = "<!-- benchmarks/table.py page -->"
SIX = ("mean", "first", "tokenwise", "linear", "structured", "query")
OVER_WORDS = ("mean", "max", "tokenwise", "linear", "structured", "gated")


class Encoder(NamedTuple):
    """An encoder: its settings, the most training and test rows, the poolings over it, and their reference."""

    name: str
    settings: list[str]
    rows: tuple[int, int]
    poolings: Sequence[str]
    space: dict[str, str]
    reference: str = "probe"


SPACE = {"optimizer.lr": "tag(log,interval(1e-4,1e-1))", "model.head.dropout": "interval(0,0.7)"}
LAYERS = {"model.embedding.layer": "range(-5,0)"}
PRETRAINED = ["model=pretrained", "model.embedding.name={}"]
WORDS = ["model=mean", "data.vectors={}", "model.embedding.frozen=true", "model.embedding.dropout=0"]
MOST, SOME = (6_000, 10_000), (3_000, 2_500)
ENCODERS = {
    "minilm": Encoder("all-MiniLM-L6-v2", [*PRETRAINED, "data.max_length=256"], MOST, [*POOLINGS], LAYERS | SPACE),
    "mpnet": Encoder("all-mpnet-base-v2", [*PRETRAINED, "data.max_length=128"], SOME, SIX, LAYERS | SPACE),
    "glove": Encoder("GloVe 6B, 50d", [*WORDS, "model.embedding.word_dropout=0"], MOST, OVER_WORDS, SPACE, "tfidf"),
}


def tables(imdb: str, yelp: str, corpora: str, out: str) -> None:
    """Writes the rows of each data set: stratified by class, spread evenly over its files."""
    sources = {"imdb": ImdbSource(imdb), "yelp": Yelp(path=yelp).source(lambda *_: None)}
    for name, (split, most) in product(DATA, (("train", 0), ("test", 1))):
        if name in sources:
            rows = [(row.text, sources[name].labels[row.label], row.group) for row in sources[name].read(split)]
            names = ("text", "label", "group")[: 3 if name == "imdb" else 2]
            table = pa.table(dict(zip(names, zip(*rows, strict=True), strict=False)))
        else:
            table = pq.read_table(Path(corpora, f"{name}-{split}.parquet"))
        labels_N = np.unique(table["label"].to_pylist(), return_inverse=True)[1]
        for encoder in ENCODERS.values():
            file = table_of(out, encoder, name, split)
            file.parent.mkdir(parents=True, exist_ok=True)
            taken = table.take(spread(labels_N, min(len(labels_N), encoder.rows[most])))
            if split == "test":  # without classes of which no training row was taken
                classes = pq.read_table(table_of(out, encoder, name, "train"), columns=["label"])["label"]
                taken = taken.filter(pc.is_in(taken["label"], classes))
            pq.write_table(taken, file)


def table_of(out: str, encoder: Encoder, data: str, split: str) -> Path:
    """The table of a split."""
    return Path(out, "tables", str(encoder.rows[1]), f"{data}-{split}.parquet")


def settings_of(encoder: Encoder, folder: str, data: str, out: str) -> list[str]:
    """The settings that all poolings over an encoder share on a data set."""
    files = [f"data.{split}={table_of(out, encoder, data, split)}" for split in ("train", "test")]
    group = ["data.group=group"] if data == "imdb" else []
    return ["data=table", f"data.name={data}", *files, *group, *(each.format(folder) for each in encoder.settings)]


def search(name: str, folder: str, out: str, data: Sequence[str]) -> None:
    """Searches all poolings over an encoder with the same points, and stores the best of each."""
    encoder, known = ENCODERS[name], read("settings").index
    for each in data:
        if all((name, each, pooling) in known for pooling in encoder.poolings):
            continue
        plan = {
            "study": f"{name}-{each}",
            "overrides": [*settings_of(encoder, folder, each, out), "logger=none"],
            "space": encoder.space,
            "objective": [{"metric": "val/accuracy", "mode": "max"}],
            "budget": {"trials": TRIALS},
            "sampler": {"name": "qmc"},  # the same points for each pooling
            "pruner": {"name": "none"},
            "studies": {pooling: [f"model.name={pooling}", *POOLINGS[pooling]] for pooling in encoder.poolings},
        }
        file = Path(out, f"{name}-{each}.yaml")
        file.write_text(yaml.safe_dump(plan, sort_keys=False))
        subprocess.run([*PYTHON, "sentattn.sweep", f"sweep={file}", f"output_dir={out}/search"], check=True)
        for pooling in encoder.poolings:
            best = yaml.safe_load(Path(out, "search", "sweeps", f"{name}-{each}-{pooling}", "best.yaml").read_text())
            write("settings", (name, each, pooling), best["found"] | best["reached"] | {"trials": TRIALS})


def rows(name: str, folder: str, out: str, data: Sequence[str]) -> None:
    """Trains and tests the poolings over an encoder that have no line yet, and their reference."""
    encoder, plan = ENCODERS[name], ROOT / "docs" / "plans" / f"table_{name}.yaml"
    for file in (plan, FOLDER / "settings.csv"):
        if git("status", "--porcelain", str(file)):
            sys.exit(f"{file.relative_to(ROOT)} must be committed before anything is tested.")
    chosen, known = read("settings")[list(SETTINGS)], read("results").index
    for each in data:
        runs = Path(out, "rows", name, each)
        shared = [*settings_of(encoder, folder, each, out), "logger=none", f"output_dir={runs.parent}"]
        for pooling in (pooling for pooling in encoder.poolings if (name, each, pooling) not in known):
            found = chosen.loc[(name, each, pooling)].dropna().to_dict()
            words = [f"model.name={pooling}", *POOLINGS[pooling]]
            words += [f"{key}={value:.12g}" for key, value in found.items()]
            subprocess.run([*PYTHON, "sentattn.train", "-m", *shared, *words, f"seeds={SEEDS}"], check=True)
            store((name, each, pooling), found, [file.parent for file in (runs / pooling).glob("*/result.json")], plan)
        if (name, each, encoder.reference) not in known:
            sentattn.leaderboard(runs, reference=[encoder.reference], output_dir=str(runs.parent))
            fitted = [Run(file) for file in (runs / encoder.reference).iterdir()]
            # a probe is fitted to the mean and to the first state of each layer that a pooling reads
            models = {run: run.result["settings"]["model"] for run in fitted}
            means = [run for run in fitted if "first" not in models[run].values()]
            # of equal ones the last layer
            best = max(means, key=lambda run: (run.result["metrics"]["val/accuracy"], models[run].get("layer")))
            store((name, each, encoder.reference), {SETTINGS[0]: models[best].get("layer")}, [best.path], plan)


def git(*words: str) -> str:
    """Returns what a command of git prints."""
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def store(key: Key, found: Mapping[str, float], directories: Sequence[Path], plan: Path) -> None:
    """Writes the line of a pooling, and which test rows each of its seeds has right, a bit each."""
    [line] = sentattn.leaderboard(directories).frame.to_dict("records")
    runs = sorted(directories, key=lambda path: int(Run(path).result["seed"]))
    tested = [pq.read_table(path / "predictions.parquet", filters=[("split", "=", "test")]) for path in runs]
    is_right_SN = np.stack([table["label"].to_numpy() == table["predicted"].to_numpy() for table in tested])
    np.save(FOLDER / f"{'-'.join(key)}.npy", np.packbits(is_right_SN, axis=1))
    if any(groups := tested[0]["group"].to_pylist()):
        np.save(FOLDER / f"{key[0]}-{key[1]}-groups.npy", np.unique(groups, return_inverse=True)[1].astype(np.uint16))
    result, values = Run(runs[0]).result, {name: line[name] for name in COLUMNS}
    values["parameters"] = result["parameters"].get("trainable", line["parameters"])  # without a frozen encoder
    values |= {"encoder_hash": result.get("encoder"), "revision": git("rev-parse", "--short", "HEAD")}
    write("results", key, {**found, **values, "plan": hashlib.sha256(plan.read_bytes()).hexdigest()[:12]})


SETTINGS = ("model.embedding.layer", "optimizer.lr", "model.head.dropout")
KEYS = ("encoder", "data", "pooling")
COLUMNS = ("seeds", "rows", "accuracy", "accuracy_low", "accuracy_high", "f1_macro", "parameters", "train_seconds")
Key = tuple[str, str, str]


def read(name: str) -> pd.DataFrame:
    """Returns the lines of `settings` or `results` by encoder, data set and pooling."""
    return pd.read_csv(FOLDER / f"{name}.csv", index_col=list(KEYS))


def write(name: str, key: Key, values: Mapping[str, Any]) -> None:
    """Replaces a line."""
    frame = read(name)
    frame.loc[key, [*values]] = [*values.values()]
    temporary = FOLDER / f".{name}.csv"
    frame.sort_index().to_csv(temporary, float_format="%.8g")
    temporary.replace(FOLDER / f"{name}.csv")


def board(name: str) -> Leaderboard:
    """Returns the tests of an encoder's plan, from the stored bits."""
    lines = []
    for (_, data, pooling), line in read("results").loc[[name]].iterrows():
        bits_SN = np.unpackbits(np.load(FOLDER / f"{name}-{data}-{pooling}.npy"), axis=1, count=int(line["rows"]))
        groups = FOLDER / f"{name}-{data}-groups.npy"
        row_N = np.arange(bits_SN.shape[1])
        for seed, bits_N in enumerate(bits_SN):
            columns = {"setting": pooling, "seed": seed if len(bits_SN) > 1 else None, "data": data, "row": row_N}
            columns |= {"label": row_N % 2, "predicted": (row_N + 1 - bits_N) % 2}  # correct where the bit is set
            columns |= {"group": np.load(groups) if groups.is_file() else None}
            lines.append(pd.DataFrame(columns))
    with TemporaryDirectory() as folder:
        pd.concat(lines).to_parquet(file := Path(folder, "table.parquet"))
        plan = ROOT / "docs" / "plans" / f"table_{name}.yaml"
        return sentattn.leaderboard(table=str(file), plan=str(plan), output_dir=folder)


def page(check: bool) -> None:
    """Writes tables and charts of the page, of the encoders that have all lines; or checks the tables."""
    known = read("results").index
    boards = {
        name: board(name)
        for name, encoder in ENCODERS.items()
        if all((name, data, pooling) in known for data in DATA for pooling in (*encoder.poolings, encoder.reference))
    }
    file = ROOT / "docs" / "poolings.md"
    before, *_, after = file.read_text().split(MARK)
    written = "\n".join(
        [before + MARK, *(line for name in boards for line in lines_of(name, boards[name])), MARK + after]
    )
    if not check:
        file.write_text(written)
        for name, tested in boards.items():
            tested.figure(file.with_name(f"poolings_{name}.png"))
    elif file.read_text() != written:
        sys.exit(f"{file} is not what {FOLDER} gives: python benchmarks/table.py page")


def lines_of(name: str, board: Leaderboard) -> Iterator[str]:
    """Yields the chart and the tables of an encoder."""
    results, encoder = read("results").loc[name], ENCODERS[name]
    yield from ("", f"## {encoder.name}", "", f"![Differences of poolings over {encoder.name}](poolings_{name}.png)")
    yield "*Mean difference over the data sets with its interval, and each data set.*\n"
    yield from ("| pooling | above the mean | better, undecided, worse | parameters (Yelp) |", "|---|---|---|---|")
    over_the_mean = [each for each in board.overall if each.mean.second.name == "mean"]
    for each in sorted(over_the_mean, key=lambda each: -each.mean.estimate.value):
        pooling, metric = each.mean.first.name, each.metric
        low, high = map(metric.difference, each.mean.intervals[0])
        counts = ", ".join(str(each.results.count(result)) for result in ("win", "tie", "loss"))
        gain = f"{metric.difference(each.mean.estimate.value, '+')} ({low} to {high})"
        yield f"| `{pooling}` | {gain} | {counts} | {results.loc[('yelp', pooling), 'parameters']:,.0f} |"
    yield from ("", *(f"- {each.mean.message(each.margin)}" for each in board.overall if each not in over_the_mean))
    yield from ("", f"| test accuracy, % | {' | '.join(DATA.values())} |", "|---|" + "---|" * len(DATA))
    for pooling in (*encoder.poolings, encoder.reference):
        accuracies = [100 * results.loc[(data, pooling), "accuracy"] for data in DATA]
        yield f"| `{pooling}` | {' | '.join(f'{accuracy:.1f}' for accuracy in accuracies)} |"
    yield ""


def main(command: str = "", **options: str) -> None:
    """Runs a stage of the table."""
    out, data = options.pop("out", "outputs/table"), options.pop("data", ",".join(DATA)).split(",")
    named = [name for name in options if name in ENCODERS]
    if command == "tables" and options.keys() == {"imdb", "yelp", "corpora"}:
        tables(**options, out=out)
    elif command == "page":
        page(options.get("check") == "true")
    elif command in ("search", "rows") and len(named) == len(options) == 1:
        {"search": search, "rows": rows}[command](named[0], options[named[0]], out, data)
    else:
        leave_out("a stage and its files: see the first lines")


if __name__ == "__main__":
    main(*sys.argv[1:2], **dict(word.split("=", 1) for word in sys.argv[2:]))
