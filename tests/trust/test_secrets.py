"""Keys and tokens of the environment are in no file of a run, of Weights & Biases, of a study, or of an export."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from attempts import SMALL

SECRETS = {
    name: f"s3cr3t{number}" * 5
    for number, name in enumerate(
        ("WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PASSWORD")
    )
}


def run(home: Path, *words: str) -> str:
    """Runs a module in a folder that is its home too, and returns what it prints."""
    env = os.environ | SECRETS | {"HOME": str(home), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-m", *words], cwd=home, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_no_secret_is_written_or_printed(tmp_path: Path) -> None:
    training = [*(word for word in SMALL if not word.startswith("logger")), "logger=wandb", "logger.mode=offline"]
    printed = run(tmp_path, "sentattn.train", "model=mean", *training)
    printed += run(tmp_path, "sentattn.train", "-m", "model=mean", "seed=1,2", *training, "slots=1")
    space = ["optimizer.lr=interval(1e-3,1e-2)", "model=mean", "trials=2", "slots=1", "study=s"]
    printed += run(tmp_path, "sentattn.sweep", *space, *training)
    printed += run(tmp_path, "sentattn.compare", "outputs/demo", "report=report.html", "insight=true")
    printed += run(tmp_path, "sentattn.predict", "run=latest", "text=Good food.", "plot=picture.html")
    printed += run(tmp_path, "sentattn.export", "run=latest", "format=hub", "output=hub", "weights=true")
    printed += run(tmp_path, "sentattn.export", "run=latest", "format=onnx", "output=onnx")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {".wandb", ".yaml", ".html", ".onnx", ".md", ".parquet"} <= {file.suffix for file in files}
    for name, secret in SECRETS.items():
        assert secret not in printed, name
        assert [file for file in files if secret.encode() in file.read_bytes()] == [], name
