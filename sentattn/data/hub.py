"""Files of pretrained encoders: a folder, or a name on the Hugging Face Hub."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from sentattn.data.cache import sha256
from sentattn.data.readers.archives import existing, neighbour
from sentattn.errors import DataError, Fault

CONFIG_FILE, ADAPTER_FILE = "config.json", "adapter_config.json"
TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"
WEIGHTS_FILE, WEIGHTS_FILES = "model.safetensors", "*.safetensors"
INDEX_FILE = f"{WEIGHTS_FILE}.index.json"
ENCODER_FILES = (CONFIG_FILE, ADAPTER_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE, WEIGHTS_FILES, INDEX_FILE)


def find_folder(name: str, *, key: str, files: Sequence[str] = ENCODER_FILES) -> Path:
    """Returns the folder of an encoder or tokenizer; downloads it from the Hub if it is no folder.

    The Hub's cache and `HF_HUB_OFFLINE` are honoured. Only data is downloaded, no code and no pickles.

    Args:
        name: A folder, or a name such as `sentence-transformers/all-MiniLM-L6-v2`, with `@` and a branch, tag or commit
            if it is not to be the newest.
        key: The setting that names it.
        files: Patterns of the files that are downloaded: by default those of an encoder.

    Raises:
        DataError: If there is no such folder or name, or the Hub cannot be reached.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        return existing(path, key)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        repository, _, revision = name.partition("@")
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=list(files)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError, ValueError) as error:
        message = (
            f"{key}={name} is no folder here, and cannot be had from the Hugging Face Hub "
            f"({type(error).__name__}): type {key}=FOLDER, or download it where there is a network.{neighbour(path)}"
        )
        raise DataError(Fault(key, "not_found", message)) from error


def content_hash(folder: Path) -> str:
    """Returns a hash over configuration, tokenizer and weights of an encoder, 16 hexadecimal digits.

    Raises:
        OSError: If a file cannot be read.
    """
    files = [folder / CONFIG_FILE, folder / TOKENIZER_FILE, *sorted(folder.glob(WEIGHTS_FILES))]
    hashes = "".join(f"{file.name} {sha256(file)}\n" for file in files if file.is_file())
    return hashlib.sha256(hashes.encode()).hexdigest()[:16]
