"""Downloads by `pooch`: a registry of addresses and checksums, mirrors, retries.

Sources of addresses and checksums:

- `aclImdb_v1.tar.gz`: TensorFlow Datasets (`url_checksums/imdb_reviews.txt`).
- `yelp_review_full_csv.tgz`: fast.ai's copy of the archive of Zhang et al. 2015, whose own copy needs a click; checksum
  of Hugging Face's datasets (`datasets/yelp_review_full/dataset_infos.json`).
- `glove.*.zip`: checksums of Embeddings.jl (`src/glove.jl`) and PyTorch-NLP; addresses that nlp.stanford.edu/data/
  redirects to. The archives under Stanford's `wordvecs/` and on the Hugging Face hub have other checksums.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from sentattn.data.cache import Progress, locked, no_progress, sha256, usable
from sentattn.data.readers.archives import existing
from sentattn.errors import DataError, Fault

REGISTRY = {
    "aclImdb_v1.tar.gz": "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
    "yelp_review_full_csv.tgz": "56006b0a17a370f1e366504b1f2c3e3754e4a3dda17d3e718a885c552869a559",
    "glove.6B.zip": "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
    "glove.42B.300d.zip": "03d5d7fa28e58762ace4b85fb71fe86a345ef0b5ff39f5390c14869da0fc1970",
    "glove.840B.300d.zip": "c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f",
    "glove.twitter.27B.zip": "792af52f795d1a32c9842a3240f5f3fe5e941a8ff6df5eb0f9d668092ebc019c",
}
"""SHA-256 of each file that can be downloaded."""
STANFORD = "https://downloads.cs.stanford.edu/nlp/data/"
URLS = {
    "aclImdb_v1.tar.gz": "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    "yelp_review_full_csv.tgz": "https://s3.amazonaws.com/fast-ai-nlp/yelp_review_full_csv.tgz",
}
"""Official addresses; the address of another file is `STANFORD` and its name."""
TIMEOUT = (10.0, 30.0)
"""Seconds to connect, and to wait for the next bytes."""
RETRIES = 3
RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
CHUNK_BYTES, MEGABYTE = 1 << 20, 10**6


def fetch(name: str, *, folder: Path, mirror: str | None = None, progress: Progress = no_progress) -> Path:
    """Returns a file of `REGISTRY` from the cache, and downloads it first if needed. Each call verifies the checksum.

    Args:
        name: Its name in `REGISTRY`.
        folder: The cache folder; files are stored in its subfolder `downloads`.
        mirror: Address of a server, or a folder, with files of the same names; None is the official address.
        progress: Receives the number of megabytes, which restarts at 0 with each attempt.

    Raises:
        DataError: If the file is not available or has another checksum, or the cache cannot be written.
    """
    file, official = folder / "downloads" / name, URLS.get(name, STANFORD + name)
    key = "data.vectors" if name.startswith("glove.") else "data.path"
    by_hand = f"Download {official} by hand and type {key}=FILE, or name a mirror: data.mirror=ADDRESS_OR_FOLDER."
    source = official
    if mirror is not None:
        is_server = mirror.startswith(("http://", "https://"))
        path = Path(mirror).expanduser().absolute() / name
        source = f"{mirror.removesuffix('/')}/{name}" if is_server else str(existing(path, "data.mirror", by_hand))
    with usable(file.parent):
        if not file.is_file() or sha256(file) != REGISTRY[name]:
            with locked(file, progress):
                _download(source, file, key, by_hand, progress)
    return file


def _download(source: str, file: Path, key: str, by_hand: str, progress: Progress) -> None:
    """Downloads a file; only temporary errors are retried.

    If the server has never answered, a retry would only delay the message.
    """
    import pooch
    from requests import ReadTimeout, RequestException, get

    pooch.get_logger().setLevel(logging.WARNING)
    checksum, attempt, has_answered = REGISTRY[file.name], 0, False

    def download(url: str, output_file: str, _: object) -> None:
        nonlocal has_answered
        os.unlink(output_file)  # pooch's temporary file; a new file has the rights of the umask
        if "://" not in url:  # up to 2 GB in a local mirror
            os.symlink(url, output_file)
            return
        headers, done = {"Accept-Encoding": "identity"}, 0
        with get(url, stream=True, timeout=TIMEOUT, headers=headers) as response, open(output_file, "wb") as output:
            has_answered = True
            response.raise_for_status()
            # A server may declare the compression of an archive as an encoding, which requests would decompress.
            response.raw.headers.pop("Content-Encoding", None)
            total = int(response.headers.get("Content-Length", 0))
            for chunk in response.iter_content(CHUNK_BYTES):
                output.write(chunk)
                done += len(chunk)
                progress(f"Downloading {file.name} (MB)", done // MEGABYTE, total // MEGABYTE or None)

    while True:
        attempt += 1
        try:
            pooch.retrieve(source, checksum, file.name, file.parent, downloader=download)
            return
        except RequestException as error:
            answer, reason = error.response, type(error).__name__
            is_temporary = has_answered or isinstance(error, ReadTimeout)
            if answer is not None:
                is_temporary = answer.status_code in RETRIED_STATUS
                reason = f"HTTP status {answer.status_code} {answer.reason}"
            if not is_temporary or attempt > RETRIES:
                message = f"{file.name} cannot be downloaded from {source} ({reason}). {by_hand}"
                raise DataError(Fault(key, "network", message)) from error
            time.sleep(attempt)
        except ValueError as error:  # the checksum, which a retry would not change
            advice = f"If you trust it, type {key}={'FILE, a local copy of it' if '://' in source else source}."
            message = f"{source} is not the official {file.name}: its SHA-256 is not {checksum}. {advice}"
            raise DataError(Fault(key, "damaged", message)) from error
