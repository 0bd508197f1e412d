"""Writes a model over a pretrained encoder as a folder that sentence-transformers loads, with no code in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from tokenizers import Regex, normalizers
from torch import nn
from transformers import PreTrainedTokenizerFast

from sentattn.data.pieces import LINE_BREAK_TAGS
from sentattn.errors import Fault, RunError
from sentattn.export import new_folder
from sentattn.models.pretrained import Pretrained
from sentattn.prediction.model import Classifier
from sentattn.sentence_transformers import AttentionPooling

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1}
"""Largest share of its length by which a vector may differ from the model's, by the type of its encoder."""
TEXTS = ("A film.", "good<br /><br />film", "As\u00ed as\u00ed.")
"""Texts whose vectors are compared, short enough for any model."""


def write_folder(classifier: Classifier, folder: Path) -> float:
    """Writes encoder and attention of a model, without its head, and compares its vectors with the model's.

    Returns:
        The largest difference of a vector, relative to its length.

    Raises:
        RunError: If the model is over no pretrained encoder, the folder exists, or the vectors differ.
    """
    encoder, max_length = classifier.model.embedding, classifier.config["text"]["max_length"]
    if not isinstance(encoder, Pretrained):
        message = f"{classifier.model.name} reads words: format=sentence-transformers needs a run of model=pretrained."
        raise RunError(Fault("run", "unsupported", message))
    pooling = attention_pooling(classifier, encoder)
    transformer = Transformer(
        str(encoder.folder),
        max_seq_length=max_length,
        model_kwargs={"dtype": torch.float32},
        config_kwargs={"output_hidden_states": pooling.layer != -1},
    )
    if encoder.encoder is not None:
        transformer.model.load_state_dict(encoder.encoder.state_dict(), strict=False)  # it may have a pooler too
    library = transformer.tokenizer.backend_tokenizer
    own = [] if library.normalizer is None else [library.normalizer]
    library.normalizer = normalizers.Sequence([normalizers.Replace(Regex(LINE_BREAK_TAGS), " "), *own])
    # The class of an encoder's family would build the family's normalizer again.
    names = {"model_max_length": max_length, "model_input_names": transformer.tokenizer.model_input_names}
    special = transformer.tokenizer.special_tokens_map
    transformer.processor = PreTrainedTokenizerFast(tokenizer_object=library, **names, **special)
    with new_folder(folder) as new:
        SentenceTransformer(modules=[transformer, pooling]).save(str(new), create_model_card=False)
        stored = SentenceTransformer(str(new), device="cpu", trust_remote_code=True, local_files_only=True)
        vectors_NP = classifier.embed(TEXTS)
        differences_NP = stored.encode(list(TEXTS)) - vectors_NP
        difference = float((np.linalg.norm(differences_NP, axis=1) / np.linalg.norm(vectors_NP, axis=1)).max())
        if not difference <= TOLERANCE[encoder.dtype]:
            message = f"sentence-transformers computes other vectors, by {difference:.1e} of their length."
            raise RunError(Fault("format", "unsupported", message))
    return difference


def attention_pooling(classifier: Classifier, encoder: Pretrained) -> AttentionPooling:
    """Returns what a model does with the states of its encoder, up to the head."""
    number, node = encoder.layer_number(encoder.layer), classifier.config["model"]
    pooling = AttentionPooling(
        layer=-1 if number == encoder.layers else number,
        layers=encoder.mixed,
        dim=encoder.out_dim,
        is_normalized=not isinstance(encoder.norm, nn.Identity),
        rounding=str(encoder.state_dtype).removeprefix("torch.") if encoder.frozen else None,
        hidden_ids=encoder.library_ids_V[encoder.hidden_ids_S].tolist(),
        parts={slot: node[slot] for slot in ("encoder", "attention", "pooling")},
    )
    weights = classifier.model.state_dict()
    weights |= {name.removeprefix("embedding."): weight for name, weight in weights.items()}
    pooling.load_state_dict({name: weights[name] for name in pooling.state_dict()})
    pooling.eval()
    return pooling
