"""Few labels: SetFit (Tunstall et al. 2022), and model2vec's static vectors, on the rows that `data.train_size` draws.

usage: python benchmarks/few_labels.py setfit|model2vec ENCODER steps=N [SETTING=VALUE ...]

Prints test accuracy for each `data.train_size=16,64,...` and `data.train_seed=0,1,...`. SetFit tunes the encoder with
pairs of texts, for `steps` batches of 16 pairs, and fits logistic regression on its vectors; model2vec distils
a vector for each token without training; C is chosen on the validation rows. Needs setfit 1.2.0 or model2vec 0.10.0.
"""

import os
import sys
from itertools import product

os.environ |= {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}

import numpy as np
from measure import leave_out, read_data, read_options

Rows = tuple[list[str], list[str]]


def setfit(encoder: str, steps: int, train: Rows, val: Rows, test: Rows) -> list[str]:
    """Returns predictions of SetFit, which reads no validation rows."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    model = SetFitModel.from_pretrained(encoder, labels=sorted({*train[1]}))
    arguments = TrainingArguments(batch_size=16, num_epochs=1, max_steps=steps, report_to="none", save_strategy="no")
    Trainer(model, arguments, train_dataset=Dataset.from_dict({"text": train[0], "label": train[1]})).train()
    return list(map(str, model.predict(test[0])))


def model2vec(encoder: str, steps: int, train: Rows, val: Rows, test: Rows) -> list[str]:
    """Returns predictions of logistic regression over static vectors of the encoder."""
    from model2vec.distill import distill
    from sklearn.linear_model import LogisticRegression

    encode = distill(model_name=encoder).encode
    fitted = [LogisticRegression(C=10.0**c, max_iter=1000).fit(encode(train[0]), train[1]) for c in range(-3, 4)]
    best = max(fitted, key=lambda model: float(model.score(encode(val[0]), val[1])))
    return list(map(str, best.predict(encode(test[0]))))


def main(method: str = "", encoder: str = "", *words: str) -> None:
    """Prints a line for each number of rows and draw."""
    if not encoder:
        leave_out("a method and the folder of an encoder: see the first lines")
    given = {"steps": 20, "data.train_size": "16,64,250,1000", "data.train_seed": "0,1,2"}
    options, settings = read_options(words, **given)
    for size, draw in product(options["data.train_size"].split(","), options["data.train_seed"].split(",")):
        data = read_data([*settings, f"data.train_size={size}", f"data.train_seed={draw}"])
        rows = []
        for split in map(data.split, ("train", "val", "test")):
            rows.append((list(map(split.texts, range(len(split)))), [data.labels[label] for label in split.labels]))
        predicted = {"setfit": setfit, "model2vec": model2vec}[method](encoder, options["steps"], *rows)
        print(f"{method},{size},{draw},{np.mean(np.array(predicted) == np.array(rows[2][1])):.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
