"""What can be downloaded: where each file is to be had, and what tells that it is the right one.

Addresses, sizes and checksums are those of public code that has downloaded the files:

- `aclImdb_v1.tar.gz`: address, size and SHA-256 of TensorFlow Datasets (`url_checksums/imdb_reviews.txt`).
- `yelp_review_full_csv.tgz`: fast.ai's copy of the archive of Zhang et al. 2015; address, size and SHA-256 of Hugging
  Face's datasets (`datasets/yelp_review_full/dataset_infos.json`). Zhang's own copy asks for a click.
- `glove.*.zip`: SHA-256 of Embeddings.jl (`src/glove.jl`) and PyTorch-NLP, that of 6B also of Keras's examples and that
  of 840B of several more; sizes of nlpia (`src/nlpia/loaders.py`), those of 6B and 840B also of logs of downloads;
  addresses are those that nlp.stanford.edu/data/ leads on to. The archives under Stanford's `wordvecs/` and on the
  Hugging Face hub hold the same vectors and were packed again: they have other checksums.
"""

from __future__ import annotations

from typing import NamedTuple

STANFORD = "https://downloads.cs.stanford.edu/nlp/data"


class Remote(NamedTuple):
    """A file that can be downloaded.

    Attributes:
        address: Its official address.
        size: Number of bytes.
        sha256: Its SHA-256, in hexadecimal digits.
        setting: The setting that points to a copy of one's own.
    """

    address: str
    size: int
    sha256: str
    setting: str


REMOTE: dict[str, Remote] = {
    "aclImdb_v1.tar.gz": Remote(
        "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        84_125_825,
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        "data.path",
    ),
    "yelp_review_full_csv.tgz": Remote(
        "https://s3.amazonaws.com/fast-ai-nlp/yelp_review_full_csv.tgz",
        196_146_755,
        "56006b0a17a370f1e366504b1f2c3e3754e4a3dda17d3e718a885c552869a559",
        "data.path",
    ),
    "glove.6B.zip": Remote(
        f"{STANFORD}/glove.6B.zip",
        862_182_613,
        "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
        "data.vectors",
    ),
    "glove.42B.300d.zip": Remote(
        f"{STANFORD}/glove.42B.300d.zip",
        1_877_800_501,
        "03d5d7fa28e58762ace4b85fb71fe86a345ef0b5ff39f5390c14869da0fc1970",
        "data.vectors",
    ),
    "glove.840B.300d.zip": Remote(
        f"{STANFORD}/glove.840B.300d.zip",
        2_176_768_927,
        "c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f",
        "data.vectors",
    ),
    "glove.twitter.27B.zip": Remote(
        f"{STANFORD}/glove.twitter.27B.zip",
        1_520_408_563,
        "792af52f795d1a32c9842a3240f5f3fe5e941a8ff6df5eb0f9d668092ebc019c",
        "data.vectors",
    ),
}
