"""Times the states of reviews by a pretrained encoder: sentattn against sentence-transformers, in interleaved rounds.

usage: python benchmarks/encoder_states.py encoder=FOLDER imdb=aclImdb_v1.tar.gz [reviews=256] [rounds=5] [threads=2]

Both read the same texts, cut to their first 256 word pieces, in float32; ours in bfloat16 too. HTML line breaks, which
our tokenizer reads as white space, are replaced by a space for both. The largest differences of a state from theirs are
printed, after it was rounded to float16. Without `imdb=` the texts are those of the demo corpus.
"""

from __future__ import annotations

import re
import sys
from functools import partial

import numpy as np
import torch
from measure import data_settings, interleave, leave_out, read_data, read_options, report, require

from sentattn.data.pieces import LINE_BREAK_TAGS
from sentattn.models.pretrained import Pretrained
from sentattn.training.states import BATCH_TOKENS

PIECES = 256


def main(words: list[str]) -> None:
    """Prints a table."""
    options, _ = read_options(words, encoder="", imdb="", reviews=256, rounds=5, threads=2)
    require("sentence_transformers")
    name = options["encoder"] or leave_out("encoder=FOLDER")
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(options["threads"])
    settings = ["model=pretrained", f"model.embedding.name={name}", "data.clip=head", f"data.max_length={PIECES}"]
    data = read_data([*settings, *data_settings(options["imdb"])])
    rows = data.split("val")
    texts = [re.sub(LINE_BREAK_TAGS, " ", rows.texts(row)) for row in range(options["reviews"])]
    other = SentenceTransformer(name, device="cpu")
    other.max_seq_length = PIECES

    def ours(dtype: str) -> list[np.ndarray]:
        encoded = [torch.from_numpy(text.ids.astype(np.int64)) for text in data.tokenizer.encode(texts)]
        order = sorted(range(len(texts)), key=lambda i: -len(encoded[i]))
        states: dict[int, np.ndarray] = {}
        while order:
            size = max(1, BATCH_TOKENS // len(encoded[order[0]]))
            batch, order = order[:size], order[size:]
            tokens_BL = torch.nn.utils.rnn.pad_sequence([encoded[i] for i in batch], batch_first=True)
            states_BLE = embeddings[dtype].encode(tokens_BL, tokens_BL != 0)[0].numpy()
            states |= {i: states_BLE[place, : len(encoded[i])] for place, i in enumerate(batch)}
        return [states[i] for i in range(len(texts))]

    def theirs() -> list[np.ndarray]:
        output = other.encode(texts, output_value="token_embeddings", convert_to_numpy=False, show_progress_bar=False)
        return [states_LE.numpy() for states_LE in output]

    embeddings = {
        dtype: Pretrained(num_embeddings=len(data.tokenizer), name=name, dtype=dtype)
        for dtype in ("float32", "bfloat16")
    }
    expected = theirs()
    for dtype in embeddings:
        differences = [np.abs(a - b).max() for a, b in zip(ours(dtype), expected, strict=True)]
        print(f"largest difference after rounding to float16, encoder in {dtype}: {max(differences):.1e}")
    forms = {"sentence-transformers": theirs} | {f"ours, {dtype}": partial(ours, dtype) for dtype in embeddings}
    readings = interleave(forms, rounds=options["rounds"], warm_up=1)
    title = f"States of {len(texts)} reviews"
    report(title, readings, baseline="sentence-transformers", unit="ms a review", scale=1e3 / len(texts))


if __name__ == "__main__":
    main(sys.argv[1:])
