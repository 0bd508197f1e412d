"""Reviews a second whose states are computed: sentattn against sentence-transformers, in interleaved rounds.

usage: python benchmarks/encoder_states.py encoder=FOLDER data.path=FILE [reviews=256] [rounds=5] [threads=2]

Both read the same texts, cut to their first 256 word pieces, in float32. The largest difference of a state is printed,
before it is rounded to float16. Needs sentence-transformers, which sentattn does not.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from sentattn.build import build_data
from sentattn.config.compose import compose
from sentattn.data.states import BATCH_TOKENS
from sentattn.models.pretrained import Pretrained


def main() -> None:
    """Prints the medians, their ratio and the spread of the rounds."""
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
    embedding = Pretrained(num_embeddings=len(data.tokenizer), name=options["encoder"])
    other = SentenceTransformer(options["encoder"], device="cpu")
    other.max_seq_length = 256

    def ours() -> list[np.ndarray]:
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
            states_BLE = embedding.encode(tokens_BL, mask_BL).numpy()
            states |= {i: states_BLE[place, : len(encoded[i].ids)] for place, i in enumerate(batch)}
        return [states[i] for i in range(len(texts))]

    def theirs() -> list[np.ndarray]:
        output = other.encode(texts, output_value="token_embeddings", convert_to_numpy=False, show_progress_bar=False)
        return [states_LE.numpy() for states_LE in output]

    differences = [np.abs(a - b).max() for a, b in zip(ours(), theirs(), strict=True)]
    print(f"largest difference after rounding to float16: {max(differences):.1e}")
    seconds: dict[Callable[[], list[np.ndarray]], list[float]] = {ours: [], theirs: []}
    for _ in range(int(options.get("rounds", 5))):
        for function, times in seconds.items():
            started = time.perf_counter()
            function()
            times.append(time.perf_counter() - started)
    speeds = {function.__name__: [len(texts) / second for second in times] for function, times in seconds.items()}
    for name, values in speeds.items():
        print(f"{name}: {statistics.median(values):.1f} reviews a second ({min(values):.1f} to {max(values):.1f})")
    print(f"ratio of medians: {statistics.median(speeds['ours']) / statistics.median(speeds['theirs']):.2f}")


if __name__ == "__main__":
    main()
