"""Times forward and backward passes of our BiLSTM and of a packed bidirectional `nn.LSTM` with the same weights.

usage: python benchmarks/bilstm.py [units=100] [layers=1] [dim=100] [shortest=230] [longest=256] [batch=64] [rounds=9]
       [device=cuda]

Each batch has texts of `shortest` to `longest` tokens. In bfloat16 both run under autocast, as with
`trainer.precision=bf16-mixed`. The last line before the table says how far the two are apart in float32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from measure import interleave, read_options, report
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sentattn.models.encoders.bilstm import BiLSTM


def main(words: list[str]) -> None:
    """Prints the largest differences in float32, then the times."""
    defaults = {"units": 100, "layers": 1, "dim": 100, "shortest": 230, "longest": 256, "batch": 64, "rounds": 9}
    sizes, _ = read_options(words, **defaults, device="cpu")
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    torch.set_default_device(sizes["device"])
    units, layers, longest = sizes["units"], sizes["layers"], sizes["longest"]
    lengths_B = torch.randint(sizes["shortest"], longest + 1, (sizes["batch"],), device="cpu")  # for packing
    lengths_B[0] = longest
    mask_BL = torch.arange(longest) < lengths_B.to(sizes["device"])[:, None]
    states_BLE = torch.randn(*mask_BL.shape, sizes["dim"], requires_grad=True)
    ours = BiLSTM(dim=sizes["dim"], hidden=units, layers=layers)
    packed = nn.LSTM(sizes["dim"], units, num_layers=layers, bidirectional=True, batch_first=True)
    packed.load_state_dict(
        {
            f"{name}_l{layer}{suffix}": weight
            for suffix, direction in (("", ours.forwards), ("_reverse", ours.backwards))
            for layer, module in enumerate(direction)
            for name, weight in ((key.removesuffix("_l0"), value) for key, value in module.state_dict().items())
        }
    )
    gradient_BLD = torch.randn(*mask_BL.shape, 2 * units) * mask_BL[..., None]

    def packed_states() -> Tensor:
        output, _ = packed(pack_padded_sequence(states_BLE, lengths_B, batch_first=True, enforce_sorted=False))
        return pad_packed_sequence(output, batch_first=True)[0]

    def our_states() -> Tensor:
        states_BLD: Tensor = ours(states_BLE, mask_BL)
        return states_BLD

    def step(forward: Callable[[], Tensor], *, bfloat16: bool) -> Callable[[], None]:
        def run() -> None:
            with torch.autocast(sizes["device"], torch.bfloat16, enabled=bfloat16):
                states_BLD = forward()
            states_BLE.grad = None
            states_BLD.backward(gradient_BLD.to(states_BLD.dtype))  # type: ignore[no-untyped-call]
            if sizes["device"] == "cuda":
                torch.cuda.synchronize()

        return run

    results = []
    for forward in (packed_states, our_states):
        step(forward, bfloat16=False)()
        results.append(((forward() * mask_BL[..., None]).detach(), states_BLE.grad))
    apart = [f"{float((first - second).abs().max()):.1e}" for first, second in zip(*results, strict=True)]
    print(f"Largest difference of states {apart[0]}, of their gradients with respect to the input {apart[1]}.\n")
    forms = {
        f"{who}, {precision}": step(forward, bfloat16=bfloat16)
        for precision, bfloat16 in (("float32", False), ("bfloat16", True))
        for who, forward in (("packed `nn.LSTM`", packed_states), ("ours", our_states))
    }
    title = f"{layers} x {units} units a direction, {sizes['batch']} texts of {sizes['shortest']} to {longest} tokens"
    readings = interleave(forms, rounds=sizes["rounds"])
    report(title, readings, baseline="packed `nn.LSTM`, float32")


if __name__ == "__main__":
    main(sys.argv[1:])
