"""Train a model, keep its best epoch by validation, test it once, write the run.

usage: python -m sentattn.train [KEY=VALUE ...] [--cfg job] [--config-dir FOLDER]

  data=demo                demo, imdb, yelp, or table for your own; data.limit=500 for a quick look
  model=structured         a variant; `python -m sentattn.list models` shows them all
  model.attention.hops=4   a setting of one of its parts; model/attention=uniform exchanges the part itself
  model/embedding=ngrams   bigrams and trigrams beside the words; model/pooling=prune and model/encoder=cnn likewise
  loss.penalty=0.0         keeps the hops apart
  loss.class_weights=none  balanced, or a number for each class such as [1,2]
  data.vectors=null        glove.6B.300d, or a file: what the words start from
  experiment               the settings of a source: experiment=gluon_yelp, experiment=keras_imdb, ...
  faithful=false           true repeats the quirks of the source; docs/sources.md lists them
  optimizer.lr=0.005       optimizer=adamw and scheduler=cosine exchange what learns, and how fast when
  trainer.max_epochs=8     like any other argument of Lightning's Trainer
  seed=0                   of the weights and of the order of the rows
  ema_decay=0.998          the weights judged are an average over steps; null takes those of the last step
  logger=wandb             none leaves Weights & Biases out
  output_dir=outputs       where the run is written

  --cfg job                print all settings and stop
  --config-dir FOLDER      also look for choices in a folder of your own, laid out as conf/

Examples:
  python -m sentattn.train
  python -m sentattn.train model=mean data=imdb seed=1
  python -m sentattn.train data=table data.train=reviews.csv data.text=review data.label=stars
  python -m sentattn.train model.attention.hops=8 model/pooling=mean loss.penalty=0.3 logger=none
  python -m sentattn.train model=relation data=imdb data.path=aclImdb_v1.tar.gz data.max_length=100
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sentattn import cli


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    return cli.run(_command, argv)


def _command(arguments: list[str]) -> None:
    settings = cli.composed(arguments)
    from sentattn.training.fitting import train

    train(settings)


if __name__ == "__main__":
    sys.exit(main())
