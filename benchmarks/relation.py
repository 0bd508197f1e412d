"""Compares training steps of `relation` with the form of its source, which holds all pairs of a text at once.

The source is the post on self-attention with a relation network (Kim 2018). Its form is written here in PyTorch line by
line: every token repeated, concatenated, three layers on the pairs, the weight repeated over the channels. Ours has the
same parameters (`score=linear gate=sigmoid`) and, where no token is padding, the same values. The post states no
widths; 32 is the preset's. A step is a forward and backward pass, with the gradient of the words. Memory is what a step
adds to its process, a fresh one for each value.

usage: python benchmarks/relation.py [rounds=7] [batch=32] [length=100] [widths=32,100] [long=400]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import measure
import torch
from torch import Tensor, nn

from sentattn.models.attention.relation import Relation
from sentattn.training.environment import peak_memory_bytes

DIM = 300
SOURCE, OURS, DEFAULT = "all pairs, as the source has it", "ours", "ours, score=pairwise gate=softmax"
MEBIBYTE = 2**20


class Source(nn.Module):
    """The post's `Sentence_Representation`, from its embedded words on; its layers are shared with ours."""

    def __init__(self, ours: Relation) -> None:
        super().__init__()
        assert ours.score_pair is not None
        self.attn, self.g_fc1, self.g_fc2 = ours.score_pair, ours.feature_pair, ours.feature_out

    def forward(self, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the representation of each text and the softmax, which the post computes and does not use."""
        length, hidden_dim = embeds.shape[1], self.g_fc2.out_features
        x_i = embeds[:, None].repeat_interleave(length, dim=1)
        x_j = embeds[:, :, None].repeat_interleave(length, dim=2)
        _x = torch.cat([x_i, x_j], dim=3).reshape(-1, 2 * DIM)
        _att = torch.tanh(self.attn(_x)).reshape(-1, length, length).sigmoid()
        att = _att.softmax(dim=1)
        _x = torch.relu(self.g_fc2(torch.relu(self.g_fc1(_x))))
        x_g = _x.reshape(-1, length, length, hidden_dim)
        x_q = _att[..., None].repeat_interleave(hidden_dim, dim=3) * x_g
        return x_q.reshape(-1, length**2, hidden_dim).mean(dim=1), att


def make_step(form: str, batch: int, length: int, width: int) -> Callable[[], list[Tensor]]:
    """Returns a function that takes a training step and returns the values and the gradients of words and layers."""
    torch.manual_seed(0)
    linear = {"score": "linear", "gate": "sigmoid"}
    ours = Relation(dim=DIM, hidden=width, width=width, **({} if form == DEFAULT else linear))  # type: ignore[arg-type]
    embeds = torch.randn(batch, length, DIM, requires_grad=True)
    mask_BL = torch.ones(batch, length, dtype=torch.bool)
    source = Source(ours)

    def step() -> list[Tensor]:
        values = source(embeds)[0] if form == SOURCE else ours(embeds, mask_BL).values_BRD[:, 0]
        return [values, *torch.autograd.grad(values.square().sum(), [embeds, *ours.parameters()])]

    return step


def memory(form: str, batch: int, length: int, width: int) -> dict[str, float]:
    """Returns what a step adds to this process and the peak of the whole process, in MiB."""
    make_step(form, 1, 4, width)()
    step = make_step(form, batch, length, width)
    before = peak_memory_bytes()
    step()
    after = peak_memory_bytes()
    return {"added": (after - before) / MEBIBYTE, "peak": after / MEBIBYTE}


def main(rounds: int, batch: int, length: int, widths: list[int], long: int) -> None:
    """Prints speed and memory at each width, and the memory of long texts."""
    for width in widths:
        source, ours = (make_step(form, 2, 20, width)() for form in (SOURCE, OURS))
        torch.testing.assert_close(source, ours, rtol=1e-3, atol=1e-4)
        steps = {form: make_step(form, batch, length, width) for form in (SOURCE, OURS, DEFAULT)}
        title = f"Training step of relation, {batch} texts of {length} tokens, {DIM} channels, width {width}"
        goal = "8 times the source at 1/10 of its memory"
        measure.report(title, measure.interleave(steps, rounds=rounds, warm_up=2), baseline=SOURCE, goal=goal)
        rows = [(form, length) for form in steps] + [(form, long) for form in (OURS, DEFAULT)]
        print(f"\n| {batch} texts, width {width} | tokens | MiB added | MiB of the process |\n|---|---|---|---|")
        for form, tokens in rows:
            used = measure.fresh_process(__file__, ["memory", form, str(batch), str(tokens), str(width)])
            print(f"| {form} | {tokens} | {used['added']:,.0f} | {used['peak']:,.0f} |", flush=True)
        print()


if __name__ == "__main__":
    torch.set_flush_denormal(True)
    if sys.argv[1:2] == ["memory"]:
        print(json.dumps(memory(sys.argv[2], *map(int, sys.argv[3:]))))
    else:
        given = {"rounds": "7", "batch": "32", "length": "100", "widths": "32,100", "long": "400"}
        given |= dict(word.split("=") for word in sys.argv[1:])
        widths = [int(width) for width in given.pop("widths").split(",")]
        main(**{key: int(text) for key, text in given.items()}, widths=widths)
