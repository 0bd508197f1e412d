"""Times training steps of the presets and of the loops that tutorials write for the same models, on IMDB.

usage: python benchmarks/plain_loops.py imdb=aclImdb_v1.tar.gz [models=structured,feedforward,cnn,mean,lstm] [rounds=5]
       [steps=3] [SETTINGS]

Ours: the project's batches, module, loss, clipped gradients, optimizer and average of the weights, as in a training.
Plain: `nn.Embedding`, `nn.LSTM` (packed, or padded as it comes), the attention in a few lines, `nn.Dropout`,
`torch.optim.Adam`, random batches and `pad_sequence`; neither word dropout, clipping nor an average. Both read the same
tokens with the same sizes. Without `imdb=` the rows are those of the demo corpus.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from measure import data_settings, interleave, read_data, read_options, report, training_step
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from sentattn.config.compose import compose
from sentattn.data.datamodule import TextData

SIZE, UNITS, HIDDEN, HOPS, CHANNELS, WIDTHS = 100, 100, 64, 4, 100, (3, 4, 5)
"""Those of the presets, as are a dropout of 0.5 and 64 rows a batch."""
Step = Callable[[], int]


class Plain(nn.Module):
    """A preset as tutorials write it."""

    def __init__(self, name: str, words: int, *, packed: bool) -> None:
        super().__init__()
        self.name, self.packed = name, packed
        self.embedding = nn.Embedding(words, SIZE, padding_idx=0)
        self.lstm = nn.LSTM(SIZE, UNITS, batch_first=True, bidirectional=name != "lstm")
        self.convolutions = nn.ModuleList(nn.Conv1d(SIZE, CHANNELS, width) for width in WIDTHS)
        self.hidden, self.scores, self.score = nn.Linear(200, HIDDEN), nn.Linear(HIDDEN, HOPS), nn.Linear(200, 1)
        wide = {"structured": 200 * HOPS, "feedforward": 200, "cnn": 300, "mean": SIZE, "lstm": UNITS}
        self.dropout, self.head = nn.Dropout(0.5), nn.Linear(wide[name], 2)

    def forward(self, tokens_BL: Tensor, lengths_B: Tensor) -> Tensor:
        """Returns logits."""
        states_BLD = self.dropout(self.embedding(tokens_BL))
        mask_BL1 = (tokens_BL != 0)[..., None]
        if self.name == "mean":
            return self.head(self.dropout((states_BLD * mask_BL1).sum(1) / lengths_B[:, None]))
        if self.name == "cnn":
            maxima = [torch.relu(conv(states_BLD.transpose(1, 2))).amax(2) for conv in self.convolutions]
            return self.head(self.dropout(torch.cat(maxima, 1)))
        if self.packed:
            pack = pack_padded_sequence(states_BLD, lengths_B, batch_first=True, enforce_sorted=False)
            states_BLD = pad_packed_sequence(self.lstm(pack)[0], batch_first=True)[0]
        else:
            states_BLD = self.lstm(states_BLD)[0]
        states_BLD = self.dropout(states_BLD)
        if self.name == "lstm":
            return self.head(self.dropout(states_BLD[torch.arange(len(lengths_B)), lengths_B - 1]))
        score = self.score if self.name == "feedforward" else lambda x: self.scores(torch.tanh(self.hidden(x)))
        weights_BLR = score(states_BLD).masked_fill(~mask_BL1, -torch.inf).softmax(1)
        return self.head(self.dropout((weights_BLR.transpose(1, 2) @ states_BLD).flatten(1)))


def plain(name: str, data: TextData, *, packed: bool) -> Step:
    """Returns a step of a tutorial's loop; it returns the number of its real tokens."""
    tokens, offsets = data.split("train").flat()
    rows = list(map(torch.from_numpy, np.split(tokens, offsets[1:-1])))
    labels = torch.from_numpy(data.split("train").labels).long()
    dataset = list(zip(rows, labels, strict=True))
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True, collate_fn=lambda batch: batch)
    model = Plain(name, len(data.tokenizer), packed=packed)
    optimizer, criterion = torch.optim.Adam(model.parameters()), nn.CrossEntropyLoss()
    batches = _endless(loader)

    def step() -> int:
        texts, labels = zip(*next(batches), strict=True)
        lengths_B = torch.tensor([len(text) for text in texts])
        optimizer.zero_grad()
        criterion(model(pad_sequence(texts, batch_first=True), lengths_B), torch.stack(labels)).backward()
        optimizer.step()
        return int(lengths_B.sum())

    return step


def ours(name: str, data: TextData, typed: list[str]) -> Step:
    """Returns a step of a training of the preset; it returns the number of its real tokens."""
    settings = compose([f"model={name}", *typed, "logger=none"])
    train, batches = training_step(settings, len(data.tokenizer), data.class_counts), _endless(data.train_dataloader())

    def step() -> int:
        batch = next(batches)
        train(batch.tokens_BL, batch.mask_BL, batch.labels_B)
        return int(batch.mask_BL.sum())

    return step


def _endless(loader: torch.utils.data.DataLoader) -> Iterator:
    return itertools.chain.from_iterable(itertools.repeat(loader))


def timed(step: Step, steps: int) -> Callable[[], float]:
    """Returns what measures the seconds a real token of some steps."""

    def run() -> float:
        started = time.perf_counter()
        tokens = sum(step() for _ in range(steps))
        return (time.perf_counter() - started) / tokens

    return run


def main(words: list[str]) -> None:
    """Prints a table a preset."""
    torch.set_flush_denormal(True)
    options, typed = read_options(words, imdb="", models="structured,feedforward,cnn,mean,lstm", rounds=5, steps=3)
    typed, steps = [*data_settings(options["imdb"]), *typed], options["steps"]
    data = read_data(typed)
    for name in options["models"].split(","):
        forms = {"plain, packed": plain(name, data, packed=True)} if name not in ("cnn", "mean") else {}
        forms |= {"plain, padded": plain(name, data, packed=False), "ours": ours(name, data, typed)}
        clocks = {form: timed(step, steps) for form, step in forms.items()}
        title = f"`{name}`, training on {data.name}, {steps} steps a round"
        readings = interleave(clocks, rounds=options["rounds"], warm_up=1)
        report(title, readings, baseline=next(iter(forms)), unit="us a real token", scale=1e6)


if __name__ == "__main__":
    main(sys.argv[1:])
