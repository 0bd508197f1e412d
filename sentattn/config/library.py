"""The most useful settings of libraries, in our words: their own documentation has them all."""

from __future__ import annotations

LIBRARY: dict[str, dict[str, str]] = {
    "optimizer": {
        "lr": "Learning rate; of a schedule that rises, its peak.",
        "weight_decay": "How far a step draws the weights towards 0; `weight_decay_on` says which.",
        "momentum": "Share of the last step that goes into the next.",
        "nesterov": "Look ahead along the momentum.",
        "betas": "How far the means of the gradient and of its square reach back.",
        "eps": "Added to the denominator.",
        "fused": "One pass over the parameters for all of a step; changes its speed only.",
    },
    "trainer": {
        "max_epochs": "Epochs to train.",
        "accelerator": "What to train on; `auto` takes a GPU where there is one.",
        "devices": "How many devices, or which, such as `[0,2]`.",
        "num_nodes": "How many machines.",
        "strategy": "How several devices train one model.",
        "precision": "Numbers to compute with; `bf16-mixed` keeps the weights in float32.",
        "accumulate_grad_batches": "Batches whose gradients make one step.",
        "gradient_clip_val": "What a gradient is clipped at; null does not clip.",
        "gradient_clip_algorithm": "Whether that is the norm of the whole gradient or the value of each component.",
        "limit_train_batches": "Batches of an epoch, their number or a share of them; null takes all.",
        "deterministic": "Refuse what a GPU cannot repeat bit by bit.",
        "benchmark": "Let cuDNN try its algorithms on each new shape.",
        "num_sanity_val_steps": "Validation batches tried before the training.",
        "log_every_n_steps": "Steps between two looks at what is logged by step; our figures are logged by epoch.",
        "profiler": "`simple` or `advanced` tells at the end where the time went.",
        "detect_anomaly": "Stop at the operation whose gradient becomes NaN; slow.",
    },
}
"""Meanings by the group whose choices are a library's classes."""
