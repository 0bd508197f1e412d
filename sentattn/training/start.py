"""`init_from=RUN`: a training that starts from the weights of a finished run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import TypeAlias

import torch
from torch import Tensor

from sentattn.config.schema import INIT_FROM
from sentattn.data.tokenizer import SPECIALS, Tokenizer
from sentattn.errors import Fault, SettingError
from sentattn.models.classifier import TextClassifier
from sentattn.prediction.model import ENCODER, read_files
from sentattn.run import MODEL, WEIGHTS

WORDS, POSITIONS = "embedding.vectors.weight", "embedding.positions.weight"
State: TypeAlias = Mapping[str, Tensor]
LISTED = 2
"""Most names of a part that are listed; of more there is their number."""


def weights_hash(run: str) -> str:
    """Returns the hash of a run's weights, 16 hexadecimal digits."""
    with (Path(run) / MODEL / WEIGHTS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def start_from(run: str, model: TextClassifier, tokenizer: Tokenizer, labels: Sequence[str]) -> list[str]:
    """Gives a model the weights of a run that fit by name and shape, and returns lines about them for the user.

    Args:
        run: The run directory.
        model: The model, prepared for its training.
        tokenizer: Its tokenizer.
        labels: Its classes.

    Raises:
        RunError: If the run's model is damaged.
        SettingError: If no weight fits.
    """
    config, other_labels, other_tokenizer, saved = read_files(Path(run) / MODEL)
    own = model.state_dict()
    taken, shared = _fitting(own, saved, tokenizer, other_tokenizer)
    if not taken:
        message = f"{INIT_FROM}={run}: none of its weights fits this model by name and shape; leave it out."
        raise SettingError(Fault(INIT_FROM, "conflict", message))
    model.load_state_dict(taken, strict=False)
    lines = [f"Starts from {run}: {len(taken)} of {len(own)} weights."]
    if shared < len(tokenizer.words) and WORDS in taken:
        lines.append(f"  {WORDS}: {shared:,} of {len(tokenizer.words):,} words, which both vocabularies have")
    new = [_difference(name, own, saved) for name in own if name not in taken]
    unused = [name for name in saved if name not in own]
    lines += [f"  {what}: {_listed(part)}" for what, part in (("not from the run", new), ("not used", unused)) if part]
    if len(labels) == len(other_labels) and [*labels] != other_labels:
        lines.append(f"  its classes have other names: {', '.join(other_labels)}")
    if None not in (encoders := (config.get(ENCODER), model.embedding.fingerprint)) and len({*encoders}) > 1:
        lines.append("  it was trained on another pretrained encoder")
    return [fill(line, 80, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) for line in lines]


def _fitting(own: State, saved: State, tokenizer: Tokenizer, other: Tokenizer) -> tuple[dict[str, Tensor], int]:
    """Returns the weights of a run that fit a model, and how many words both vocabularies have.

    Rows of word vectors belong to words: those of words in both vocabularies are taken. All else of an embedding, and a
    wide part, belong to ids and n-grams, and are taken if these are the same.
    """
    taken = {name: saved[name] for name in own if name in saved and own[name].shape == saved[name].shape}
    ids, other_ids = ({word: i for i, word in enumerate([*SPECIALS, *t.words])} for t in (tokenizer, other))
    has_same_kind = tokenizer.fingerprint == other.fingerprint  # both of words, or the same of subwords
    for part in ("embedding.", "wide."):
        if not has_same_kind or ids != other_ids or not _has_same_ngrams(part, own, saved):
            taken = {name: taken[name] for name in taken if name == POSITIONS or not name.startswith(part)}
    words = [word for word in ids if word in other_ids] if has_same_kind else []
    tables = [(len(ids), own.get(WORDS)), (len(other_ids), saved.get(WORDS))]
    widths = [table.shape[1:] for number, table in tables if table is not None and len(table) == number]
    if len(words) > len(SPECIALS) and len(widths) == 2 and widths[0] == widths[1]:
        to, of = (torch.tensor([numbers[word] for word in words]) for numbers in (ids, other_ids))
        taken[WORDS] = own[WORDS].index_copy(0, to, saved[WORDS][of].to(own[WORDS].dtype))
    return taken, len(words) - len(SPECIALS)


def _has_same_ngrams(part: str, own: State, saved: State) -> bool:
    """Returns whether the tables of n-grams of a part, which are its integers, are the same."""
    tables, others = (
        {name: table for name, table in state.items() if name.startswith(part) and not table.is_floating_point()}
        for state in (own, saved)
    )
    return tables.keys() == others.keys() and all(torch.equal(tables[name], others[name]) for name in tables)


def _difference(name: str, own: State, saved: State) -> str:
    """Returns the name of a new weight, and how that of the run differs, if there is one."""
    if name not in saved:
        return name
    size, other = (" x ".join(map(str, state[name].shape)) for state in (own, saved))
    return f"{name} ({f'{size}, in the run {other}' if size != other else 'of another vocabulary'})"


def _listed(names: Iterable[str]) -> str:
    """Returns names with commas, and of a part with many their number."""
    groups = [(part, [*group]) for part, group in groupby(names, lambda name: ".".join(name.split(".")[:2]))]
    return ", ".join(f"{part}.* ({len(group)})" if len(group) > LISTED else ", ".join(group) for part, group in groups)
