"""Reviews a second whose states are computed: sentattn against sentence-transformers, in interleaved rounds.

usage: python benchmarks/encoder_states.py encoder=FOLDER data.path=FILE [reviews=256] [rounds=5] [threads=2]

Both read the same texts, cut to their first 256 word pieces, in float32; ours in bfloat16 too. The largest differences
of a state from theirs are printed, after it was rounded to float16. Needs sentence-transformers, which sentattn does
not.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import torch
from measure import interleave, report
from sentence_transformers import SentenceTransformer

from sentattn.build import build_data
from sentattn.config.compose import compose
from sentattn.models.pretrained import Pretrained
from sentattn.training.states import BATCH_TOKENS


def main() -> None:
    """Prints a table."""
    options = dict(argument.split("=", 1) for argument in sys.argv[1:])
    torch.set_num_threads(int(options.get("threads", 2)))
    settings = compose(
        [
            "model=pretrained",
            f"model.embedding.name={options['encoder']}",
            "data=imdb",
            f"data.path={options['data.path']}",
            "data.clip=head",
        ]
    )
    data = build_data(settings)
    data.prepare()
    rows = data.split("val")
    texts = [rows.texts(row) for row in range(int(options.get("reviews", 256)))]
    other = SentenceTransformer(options["encoder"], device="cpu")
    other.max_seq_length = 256

    def ours(dtype: str) -> list[np.ndarray]:
        encoded = data.tokenizer.encode(texts)
        order = sorted(range(len(texts)), key=lambda i: -len(encoded[i].ids))
        states: dict[int, np.ndarray] = {}
        while order:
            longest = len(encoded[order[0]].ids)
            batch, order = order[: max(1, BATCH_TOKENS // longest)], order[max(1, BATCH_TOKENS // longest) :]
            tokens_BL = torch.zeros(len(batch), longest, dtype=torch.int64)
            for place, i in enumerate(batch):
                tokens_BL[place, : len(encoded[i].ids)] = torch.from_numpy(encoded[i].ids.astype(np.int64))
            mask_BL = torch.arange(longest) < torch.tensor([[len(encoded[i].ids)] for i in batch])
            states_BLE = embeddings[dtype].encode(tokens_BL, mask_BL)[0].numpy()
            states |= {i: states_BLE[place, : len(encoded[i].ids)] for place, i in enumerate(batch)}
        return [states[i] for i in range(len(texts))]

    def theirs() -> list[np.ndarray]:
        output = other.encode(texts, output_value="token_embeddings", convert_to_numpy=False, show_progress_bar=False)
        return [states_LE.numpy() for states_LE in output]

    embeddings = {
        dtype: Pretrained(num_embeddings=len(data.tokenizer), name=options["encoder"], dtype=dtype)
        for dtype in ("float32", "bfloat16")
    }
    expected = theirs()
    for dtype in embeddings:
        differences = [np.abs(a - b).max() for a, b in zip(ours(dtype), expected, strict=True)]
        print(f"largest difference after rounding to float16, encoder in {dtype}: {max(differences):.1e}")
    forms = {"sentence-transformers": theirs} | {f"ours, {dtype}": partial(ours, dtype) for dtype in embeddings}
    readings = interleave(forms, rounds=int(options.get("rounds", 5)), warm_up=1)
    title = f"States of {len(texts)} reviews"
    report(title, readings, baseline="sentence-transformers", unit="ms a review", scale=1e3 / len(texts))


if __name__ == "__main__":
    main()
