"""Few labels: SetFit (Tunstall et al. 2022), and model2vec's static vectors, on the rows that `data.train_size` draws.

usage: python benchmarks/few_labels.py setfit|model2vec ENCODER steps=N [SETTING=VALUE ...]

Prints test accuracy for each `data.train_size=16,64,...` and `data.train_seed=0,1,...`. SetFit tunes the encoder with
pairs of texts, for at most `steps` batches of 16 pairs, and fits logistic regression on its vectors; model2vec distils
a vector for each token without training, and C is chosen on the validation rows, as `reference=probe` chooses it. It
needs an environment with sentattn, setfit 1.2.0 and model2vec 0.10.0, and no network.
"""

from __future__ import annotations

import os
import sys
import time

os.environ |= {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}

import numpy as np
from datasets import Dataset
from measure import leave_out

from sentattn.build import build_data
from sentattn.config.compose import compose

STRENGTHS = 10.0 ** np.arange(-3, 4)
Texts = list[str]


def setfit(encoder: str, train: tuple[Texts, Texts], val: tuple[Texts, Texts], test: Texts, steps: int) -> list[str]:
    """Returns predictions of SetFit, which reads no validation rows."""
    from setfit import SetFitModel, Trainer, TrainingArguments

    model = SetFitModel.from_pretrained(encoder, labels=sorted({*train[1]}))
    arguments = TrainingArguments(batch_size=16, num_epochs=1, max_steps=steps, report_to="none", save_strategy="no")
    Trainer(model, arguments, train_dataset=Dataset.from_dict({"text": train[0], "label": train[1]})).train()
    return list(map(str, model.predict(test)))


def model2vec(encoder: str, train: tuple[Texts, Texts], val: tuple[Texts, Texts], test: Texts, steps: int) -> list[str]:
    """Returns predictions of logistic regression over static vectors of the encoder."""
    from model2vec.distill import distill
    from sklearn.linear_model import LogisticRegression

    vectors = distill(model_name=encoder)
    fitted = [LogisticRegression(C=c, max_iter=1000).fit(vectors.encode(train[0]), train[1]) for c in STRENGTHS]
    best = max(fitted, key=lambda one: float(one.score(vectors.encode(val[0]), val[1])))
    return list(map(str, best.predict(vectors.encode(test))))


METHODS = {"setfit": setfit, "model2vec": model2vec}


def main(method: str = "", encoder: str = "", *words: str) -> None:
    """Prints a line for each number of rows and draw."""
    if method not in METHODS or not encoder:
        leave_out("a method and the folder of an encoder: see the first lines")
    given = dict(word.split("=", 1) for word in words)
    steps, sizes, draws = (given.pop(name).split(",") for name in ("steps", "data.train_size", "data.train_seed"))
    for size in sizes:
        for draw in draws:
            drawn = [f"{key}={value}" for key, value in given.items()]
            settings = compose([*drawn, f"data.train_size={size}", f"data.train_seed={draw}"])
            data = build_data(settings)
            texts = {}
            for name in ("train", "val", "test"):
                split = data.split(name)
                texts[name] = (list(map(split.texts, range(len(split)))), [data.labels[i] for i in split.labels])
            began = time.perf_counter()
            predicted = METHODS[method](encoder, texts["train"], texts["val"], texts["test"][0], int(steps[0]))
            accuracy = np.mean(np.array(predicted) == np.array(texts["test"][1]))
            print(f"{method},{size},{draw},{accuracy:.4f},{time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
