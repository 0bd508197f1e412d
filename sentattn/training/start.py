"""`init_from=RUN`: a training that starts from the weights of a finished run."""

from __future__ import annotations

from pathlib import Path

import torch

from sentattn.config.schema import INIT_FROM
from sentattn.console import wrap
from sentattn.data.cache import sha256
from sentattn.data.tokenizer import SPECIALS, Tokenizer
from sentattn.errors import Fault, SettingError
from sentattn.models.classifier import TextClassifier
from sentattn.prediction.model import read_files
from sentattn.run import MODEL, WEIGHTS

VECTORS, POSITIONS = "embedding.vectors.weight", "embedding.positions.weight"


def weights_hash(run: str) -> str:
    """Returns the hash of a run's weights, 16 hexadecimal digits."""
    return sha256(Path(run) / MODEL / WEIGHTS)[:16]


def start_from(run: str, model: TextClassifier, tokenizer: Tokenizer) -> list[str]:
    """Gives a model the weights of a run that fit by name and shape, and returns lines for the user that name the rest.

    Of another vocabulary, the vectors of shared words are taken, and nothing else that belongs to words.

    Raises:
        RunError: If the run's model is damaged.
        SettingError: If no weight fits.
    """
    _, _, other, saved = read_files(Path(run) / MODEL)
    own = model.state_dict()
    taken = {name: saved[name] for name in own if name in saved and own[name].shape == saved[name].shape}
    has_same_words = (tokenizer.fingerprint, tokenizer.words) == (other.fingerprint, other.words)
    for part in ("embedding.", "wide."):  # whose weights, except those of positions, belong to words and n-grams
        names = {name for name in own if name.startswith(part) and name != POSITIONS}
        if not (has_same_words and names <= taken.keys()):
            taken = {name: weight for name, weight in taken.items() if name not in names}
    places = {word: place for place, word in enumerate([*SPECIALS, *other.words])}
    pairs = [(row, places[word]) for row, word in enumerate([*SPECIALS, *tokenizer.words]) if word in places]
    is_same_kind = tokenizer.fingerprint == other.fingerprint and VECTORS in own and VECTORS in saved
    if is_same_kind and len(pairs) > len(SPECIALS) and saved[VECTORS].shape == (len(other), *own[VECTORS].shape[1:]):
        rows, sources = torch.tensor(pairs).T
        taken[VECTORS] = own[VECTORS].index_copy(0, rows, saved[VECTORS][sources].to(own[VECTORS].dtype))
    if not taken:
        message = f"{INIT_FROM}={run}: none of its weights fits this model by name and shape; leave it out."
        raise SettingError(Fault(INIT_FROM, "conflict", message))
    model.load_state_dict(taken, strict=False)
    text = f"Starts from {run}: {len(taken)} of {len(own)} weights"
    if VECTORS in taken and not has_same_words:
        text += f", with the vectors of {len(pairs) - len(SPECIALS):,} of {len(tokenizer.words):,} words"
    for what, names in (("new", own.keys() - taken.keys()), ("not used", saved.keys() - own.keys())):
        modules = sorted({".".join(name.split(".")[:-1][:3]) for name in names})
        text += f"; {what}: {', '.join(modules)}" if modules else ""
    return wrap(f"{text}.", "", "  ")
