"""Times steps of our training and of Hugging Face's `Trainer` around the same module, on IMDB.

usage: python benchmarks/hf_trainer.py [model=structured] [steps=20] [rounds=5] [SETTINGS]

The `Trainer` groups texts by length, pads them, clips gradients, and takes its default optimizer, fused AdamW. Ours is
Lightning as in a training, with the average of the weights on top. Times are from the first step to the end of the
last, by real tokens. SETTINGS are settings of a training, such as data.path=aclImdb_v1.tar.gz, or
`model=pretrained model/attention=first model.embedding.name=FOLDER model.embedding.frozen=false` to tune an encoder:
the `Trainer` then tunes transformers' own classifier, which reads the first state too.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from measure import interleave, report
from pytorch_lightning import Callback
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from sentattn.build import build_data, build_model
from sentattn.config.compose import compose
from sentattn.models.pretrained import Pretrained
from sentattn.training.callbacks import averaging
from sentattn.training.environment import quiet_libraries, set_up_torch
from sentattn.training.lit_module import build_lit
from sentattn.training.trainer import build_trainer


class Ours(Callback):
    """Seconds of Lightning's steps."""

    started = ended = 0.0

    def on_train_batch_start(self, *_: Any) -> None:
        self.started = self.started or time.perf_counter()

    def on_train_batch_end(self, *_: Any) -> None:
        self.ended = time.perf_counter()


class Theirs(TrainerCallback):
    """Seconds of the `Trainer`'s steps."""

    started = ended = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.started = self.started or time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ended = time.perf_counter()


class Wrapped(nn.Module):
    """A model as the `Trainer` calls one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.model(input_ids, attention_mask).logits_BC
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    """Returns a padded batch."""
    input_ids = pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    labels = torch.tensor([row["labels"] for row in rows])
    return {"input_ids": input_ids, "attention_mask": input_ids != 0, "labels": labels}


def main(arguments: dict[str, str]) -> None:
    """Prints a table."""
    rounds, steps = (int(arguments.pop(key, default)) for key, default in (("rounds", "5"), ("steps", "20")))
    arguments = {"model": "structured", "data": "imdb", "logger": "none", "trainer.precision": "32-true"} | arguments
    settings = compose([f"{key}={value}" for key, value in arguments.items()])
    settings["trainer"] |= {"limit_train_batches": steps, "limit_val_batches": 0, "max_epochs": 1}
    quiet_libraries()
    set_up_torch(settings)
    data = build_data(settings)
    data.prepare()
    flat, offsets = data.split("train").flat()
    texts = zip(np.split(flat, offsets[1:-1]), data.split("train").labels.tolist(), strict=True)
    rows = [{"input_ids": torch.from_numpy(ids), "labels": label} for ids, label in texts]
    model, wrapped = (build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=2) for _ in range(2))
    lit, hugging = build_lit(settings, model, class_counts=data.class_counts, ordered=data.ordered), Wrapped(wrapped)
    if isinstance(model.embedding, Pretrained):
        hugging = AutoModelForSequenceClassification.from_pretrained(model.embedding.folder)
        rows = [{**row, "input_ids": model.embedding.library_ids_V[row["input_ids"]]} for row in rows]
    tokens, seed = list[int](), iter(range(1000))
    hugging.register_forward_pre_hook(
        lambda _, __, batch: tokens.append(int(batch["attention_mask"].sum())), with_kwargs=True
    )

    def ours() -> float:
        clock, data.seed = Ours(), next(seed)
        trainer = build_trainer(settings["trainer"], callbacks=[*averaging(settings["ema_decay"]), clock])
        counted = [int(batch.mask_BL.sum()) for batch, _ in zip(data.train_dataloader(), range(steps), strict=False)]
        trainer.fit(lit, datamodule=data)
        return (clock.ended - clock.started) / sum(counted)

    def theirs() -> float:
        clock = Theirs()
        tokens.clear()
        options = TrainingArguments(
            folder,
            per_device_train_batch_size=settings["data"]["batch_size"],
            max_steps=steps,
            train_sampling_strategy="group_by_length",
            learning_rate=0.005,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            seed=next(seed),
        )
        Trainer(hugging, options, data_collator=collate, train_dataset=rows, callbacks=[clock]).train()
        return (clock.ended - clock.started) / sum(tokens)

    with tempfile.TemporaryDirectory() as folder:
        forms: dict[str, Callable[[], float]] = {"Hugging Face `Trainer`": theirs, "ours": ours}
        readings = interleave(forms, rounds=rounds, warm_up=1)
    title = f"`{settings['model']['name']}`, training on IMDB, {steps} steps a round"
    report(title, readings, baseline="Hugging Face `Trainer`", unit="us a real token", scale=1e6)


if __name__ == "__main__":
    main({key: value for key, _, value in (word.partition("=") for word in sys.argv[1:])})
