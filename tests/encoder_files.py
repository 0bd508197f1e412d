"""A small random BERT with a WordPiece tokenizer of the demo corpus, as a folder that transformers reads."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from sentattn.data.datasets.demo import DemoSource
from sentattn.data.pieces import MASKS, PADS, UNKNOWNS

SPECIAL = [PADS[0], "[unused0]", UNKNOWNS[0], "[CLS]", "[SEP]", MASKS[0]]


def write_tokenizer(folder: Path, *, vocab_size: int = 200) -> Tokenizer:
    """Writes a tokenizer whose unknown token is not its second, as BERT's is not."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWNS[0]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    texts = [row.text for row in DemoSource().read("train")]
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    around = [("[CLS]", SPECIAL.index("[CLS]")), ("[SEP]", SPECIAL.index("[SEP]"))]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=around)
    tokenizer.enable_truncation(8)  # as many files have it, for the model that they were trained with
    tokenizer.enable_padding()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def write_encoder(folder: Path, *, layers: int = 2, positions: int = 64, seed: int = 0, dropout: float = 0.1) -> Path:
    """Writes a random BERT, 16 wide, with its tokenizer."""
    from transformers import BertConfig, BertModel

    size = write_tokenizer(folder).get_vocab_size()
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=size,
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
        initializer_range=0.5,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        architectures=["BertModel"],
    )
    BertModel(config).save_pretrained(folder)
    return folder
