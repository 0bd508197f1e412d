"""Writes a model over a pretrained encoder as a folder that sentence-transformers loads, with no code in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from tokenizers import Regex, normalizers, processors
from torch import nn
from transformers import PreTrainedTokenizerFast

from sentattn.data.pieces import LINE_BREAK_TAGS, PieceTokenizer
from sentattn.data.tokenizer import PAD_ID
from sentattn.errors import Fault, RunError
from sentattn.export import new_folder
from sentattn.models.pretrained import Pretrained
from sentattn.prediction.model import Classifier
from sentattn.sentence_transformers import AttentionPooling

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1}
"""Largest share of its length by which a vector may differ from the model's, by the type of its encoder."""
TEXTS = ("A film.", "good<br /><br />film", "As\u00ed as\u00ed.")
"""Texts whose vectors are compared, short enough for any model."""


def write_sentence_transformer(classifier: Classifier, folder: Path) -> float:
    """Writes encoder and attention of a model, without its head, and compares its vectors with the model's.

    Returns:
        The largest difference of a vector, relative to its length.

    Raises:
        RunError: If the model is over no pretrained encoder, the folder exists, or the vectors differ.
    """
    encoder, pieces = classifier.model.embedding, classifier.tokenizer
    if not isinstance(encoder, Pretrained) or not isinstance(pieces, PieceTokenizer):
        message = f"{classifier.model.name} reads words: format=sentence-transformers needs a run of model=pretrained."
        raise RunError(Fault("run", "unsupported", message))
    pooling = attention_pooling(classifier, encoder)
    transformer = Transformer(
        str(encoder.folder),
        max_seq_length=classifier.config["text"]["max_length"],
        model_kwargs={"dtype": torch.float32, "attn_implementation": None, "use_safetensors": True},
        config_kwargs={"output_hidden_states": pooling.layer != -1},
    )
    if encoder.encoder is not None:
        transformer.model.load_state_dict(encoder.encoder.state_dict(), strict=False)  # it may have a pooler too
    transformer.processor = fast_tokenizer(transformer.tokenizer, pieces)
    # Code that an encoder names is not run here, and not where the folder is loaded with trust_remote_code=True.
    vars(transformer.model.config).pop("auto_map", None)
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


def fast_tokenizer(of_encoder: PreTrainedTokenizerFast, pieces: PieceTokenizer) -> PreTrainedTokenizerFast:
    """Returns the tokenizer of an encoder, with the line breaks, special tokens and padding of the model's."""
    library = of_encoder.backend_tokenizer
    own = [] if library.normalizer is None else [library.normalizer]
    library.normalizer = normalizers.Sequence([normalizers.Replace(Regex(LINE_BREAK_TAGS), " "), *own])
    before, after = ([pieces.pieces[number] for number in ids] for ids in (pieces.prefix, pieces.suffix))
    numbers = [(token, library.token_to_id(token)) for token in {*before, *after}]
    library.post_processor = processors.TemplateProcessing(single=[*before, "$A", *after], special_tokens=numbers)
    # The class of an encoder's family would build the family's normalizer again.
    return PreTrainedTokenizerFast(
        tokenizer_object=library,
        model_max_length=of_encoder.model_max_length,
        model_input_names=of_encoder.model_input_names,
        **{"pad_token": library.id_to_token(int(pieces.library_ids_V[PAD_ID])), **of_encoder.special_tokens_map},
    )


def attention_pooling(classifier: Classifier, encoder: Pretrained) -> AttentionPooling:
    """Returns what a model does with the states of its encoder, up to the head."""
    number, node = encoder.layer_number(encoder.layer), classifier.config["model"]
    pooling = AttentionPooling(
        layer=-1 if number == encoder.layers else number,
        layers=1 if encoder.mix_scores is None else len(encoder.mix_scores),
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
