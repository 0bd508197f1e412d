"""Times steps of our training and of Hugging Face's `Trainer` around the same module, on IMDB.

usage: python benchmarks/hf_trainer.py imdb=aclImdb_v1.tar.gz [model=structured] [steps=20] [rounds=5] [SETTINGS]

The `Trainer` groups texts by length, pads them, clips gradients, and takes its default optimizer, fused AdamW. Ours is
Lightning as in a training, with the average of the weights on top. Times are from the first step to the end of the
last, by real tokens. With `model=pretrained model/attention=first model.embedding.name=FOLDER
model.embedding.frozen=false` both tune an encoder: the `Trainer` then has transformers' own classifier, which reads the
first state too. Without `imdb=` the rows are those of the demo corpus.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

import numpy as np
import torch
from measure import data_settings, interleave, read_data, read_options, report, require, with_defaults
from pytorch_lightning import Callback
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.models.pretrained import Pretrained
from sentattn.training.callbacks import averaging
from sentattn.training.environment import quiet_libraries, set_up_torch
from sentattn.training.lit_module import build_lit
from sentattn.training.trainer import build_trainer

require("transformers", "accelerate")
from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments  # noqa: E402


class Clock:
    """Seconds from the first step to the end of the last."""

    started = ended = 0.0

    def start(self, *_: Any, **__: Any) -> None:
        """Notes the start of the first step."""
        self.started = self.started or time.perf_counter()

    def stop(self, *_: Any, **__: Any) -> None:
        """Notes the end of a step."""
        self.ended = time.perf_counter()


class Ours(Clock, Callback):
    """Of Lightning's steps."""

    on_train_batch_start, on_train_batch_end = Clock.start, Clock.stop


class Theirs(Clock, TrainerCallback):
    """Of the `Trainer`'s steps."""

    on_step_begin, on_step_end = Clock.start, Clock.stop


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


def main(words: list[str]) -> None:
    """Prints a table."""
    options, typed = read_options(words, imdb="", steps=20, rounds=5)
    typed = with_defaults(typed, "model=structured", "trainer.precision=32-true", *data_settings(options["imdb"]))
    settings, steps = compose([*typed, "logger=none"]), options["steps"]
    settings["trainer"] |= {"limit_train_batches": steps, "limit_val_batches": 0, "max_epochs": 1}
    quiet_libraries()
    set_up_torch(settings)
    data = read_data(typed)
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
        readings = interleave({"`Trainer`": theirs, "ours": ours}, rounds=options["rounds"], warm_up=1)
    title = f"`{settings['model']['name']}`, training on {data.name}, {steps} steps a round"
    report(title, readings, baseline="`Trainer`", unit="us a real token", scale=1e6)


if __name__ == "__main__":
    main(sys.argv[1:])
