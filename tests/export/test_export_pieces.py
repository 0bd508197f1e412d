"""Models over subwords, exported: the script gives what the model gives, from ids of the exported tokenizer."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from encoder_files import SPECIAL, write_encoder
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from sentattn.build import build_model
from sentattn.config.compose import compose
from sentattn.data.pieces import read_tokenizer
from sentattn.errors import RunError, SettingError
from sentattn.export import predict as script
from sentattn.export import sentences
from sentattn.export.onnx_folder import write_export
from sentattn.models.embedding import TrainingTexts
from sentattn.prediction.model import TEXT_SETTINGS, Classifier

MAX_LENGTH = 13
TEXTS = [
    "bad",
    "I did not like the ending of this film at all, it was far too long!",  # longer than is read
    "A [SEP] in [MASK] a text [CLS] is text, [PAD] and [UNK] too.",
    "cafe\u0301 \u2764\ufe0f, \U0001f600 \u65e5\u672c \u00dcBER",
    "Not good.\n<br />Not bad.",
]
PRETRAINED = ("model=pretrained", "model/attention=structured")
FROZEN = (*PRETRAINED, "model.embedding.layer=mix", "data.clip=tail")
MODELS = [FROZEN, (*PRETRAINED, "model.embedding.frozen=false", "data.clip=head"), ("model=mean",)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"), layers=1)


def classifier(encoder: Path, *settings: str) -> Classifier:
    """An untrained model over the tokens of the encoder's tokenizer."""
    named = f"model.embedding.name={encoder}" if "model=pretrained" in settings else f"data.tokenizer={encoder}"
    composed = compose([*settings, named, f"data.max_length={MAX_LENGTH}"])
    text = {key: composed["data"][key] for key in TEXT_SETTINGS}
    tokenizer = read_tokenizer(str(encoder), max_length=MAX_LENGTH, clip=text["clip"])
    torch.manual_seed(0)
    ids = {"num_embeddings": len(tokenizer), "num_special": tokenizer.num_special}
    model = build_model(composed["model"], **ids, classes=2)
    model.prepare_training(lambda: TrainingTexts(*[np.empty(0, np.int64)] * 3))
    with torch.no_grad():  # with initial weights, all texts have nearly the same probabilities
        for part in (model.attention, model.head):
            for parameter in part.parameters():
                parameter.mul_(3)
    return Classifier(
        model=model, tokenizer=tokenizer, labels=["bad", "good"], config={"text": text, "model": composed["model"]}
    )


@pytest.fixture(scope="module")
def exported(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Classifier, Path]]:
    """Returns a function from settings to a model and the folder of its export; each is exported once."""

    @functools.cache
    def export(*settings: str) -> tuple[Classifier, Path]:
        model, folder = classifier(encoder, *settings), tmp_path_factory.mktemp("export") / "onnx"
        write_export(model, folder)
        return model, folder

    return export


@pytest.mark.parametrize("settings", MODELS, ids=" ".join)
def test_the_script_reads_texts_as_the_model_does(
    settings: tuple[str, ...], exported: Callable[..., tuple[Classifier, Path]]
) -> None:
    trained, folder = exported(*settings)
    predictions, expected = script.Model(folder).predict(TEXTS), trained.predict(TEXTS)
    # Frozen states are rounded to float16: the last bits of the encoder decide which way.
    for prediction, of_model in zip(predictions, expected, strict=True):
        for key in ("text", "label", "tokens", "spans", "unknown"):
            assert prediction[key] == getattr(of_model, key)
        assert prediction["probabilities"] == pytest.approx(of_model.probabilities, abs=1e-3)
        np.testing.assert_allclose(prediction["attention"], of_model.attention, atol=1e-3)
    shares = [prediction["probabilities"]["good"] for prediction in predictions]
    assert max(shares) - min(shares) > 1e-2
    assert max(len(prediction["tokens"]) for prediction in predictions) == MAX_LENGTH


def test_the_graph_takes_ids_of_the_file(exported: Callable[..., tuple[Classifier, Path]]) -> None:
    """As the library gives them, special tokens included; its numbers are not those of the model."""
    trained, folder = exported(*FROZEN)
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.no_truncation()
    text = "The film \u65e5 was good."  # with an unknown sign
    ids = library.encode(text).ids
    assert ids != trained.tokenizer.encode([text])[0].ids.tolist()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    inputs = {"tokens": np.array([[*ids, 0]]), "lengths": np.array([len(ids)])}
    [probabilities] = session.run(["probabilities"], inputs)
    [expected] = trained.predict([text])
    assert probabilities[0].tolist() == pytest.approx([*expected.probabilities.values()], abs=1e-3)


def test_the_description_has_ids_of_the_file_and_no_path(
    encoder: Path, exported: Callable[..., tuple[Classifier, Path]]
) -> None:
    content = (exported(*FROZEN)[1] / "config.json").read_text()
    config = json.loads(content)
    named = {
        place: [(token["id"], token["token"]) for token in part] for place, part in config["special_tokens"].items()
    }
    assert named == {"before": [(SPECIAL.index("[CLS]"), "[CLS]")], "after": [(SPECIAL.index("[SEP]"), "[SEP]")]}
    assert (config["padding"], config["unknown"]) == (SPECIAL.index("[PAD]"), SPECIAL.index("[UNK]"))
    assert config["tokenizer"] == "pieces"
    assert str(encoder) not in content


VECTORS = [
    ("model/attention=structured",),
    ("model.embedding.layer=mix", "model.embedding.norm=false", "model/attention=first"),
    ("model.embedding.layer=0", "model.embedding.special=false", "model/encoder=bilstm", "model/attention=last"),
    ("model.embedding.frozen=false", "model/attention=gated", "model.attention.normalizer=sparsemax"),
]


@pytest.mark.parametrize("settings", VECTORS, ids=" ".join)
def test_sentence_transformers_gives_the_vectors_of_the_model(
    settings: tuple[str, ...], encoder: Path, tmp_path: Path
) -> None:
    trained = classifier(encoder, "model=pretrained", "data.clip=head", *settings)
    sentences.write_sentence_transformer(trained, tmp_path / "folder")
    loaded = SentenceTransformer(str(tmp_path / "folder"), device="cpu", trust_remote_code=True)
    texts = [TEXTS[0], TEXTS[1], *TEXTS[3:]]  # without special tokens as text
    vectors_NP = loaded.encode(texts)
    np.testing.assert_allclose(vectors_NP, trained.embed(texts), atol=1e-5)
    assert vectors_NP.shape == (len(texts), loaded.get_embedding_dimension())
    files = [file for file in (tmp_path / "folder").rglob("*") if file.is_file()]
    assert {file.suffix for file in files} <= {".json", ".safetensors"}
    assert not any(str(encoder).encode() in file.read_bytes() for file in files)


def test_code_that_an_encoder_names_is_not_in_its_folder_for_sentence_transformers(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder", layers=1)
    config = json.loads((encoder / "config.json").read_text())
    code = {name: f"somebody/code--modeling.{name}" for name in ("AutoConfig", "AutoModel")}
    config |= {"auto_map": code, "attn_implementation": "somebody/kernel"}
    (encoder / "config.json").write_text(json.dumps(config))
    sentences.write_sentence_transformer(classifier(encoder, "model=pretrained"), tmp_path / "folder")
    assert b"somebody" not in b"".join(file.read_bytes() for file in (tmp_path / "folder").rglob("*.json"))


def test_a_folder_for_sentence_transformers_runs_no_class_that_it_names(encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    sentences.write_sentence_transformer(classifier(encoder, "model=pretrained"), folder)
    file = folder / "1_AttentionPooling" / "config.json"
    config = json.loads(file.read_text())
    config["parts"]["attention"] = {"_target_": "os.system", "command": "true"}
    file.write_text(json.dumps(config))
    with pytest.raises(SettingError):
        SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)


def test_a_model_of_words_has_no_folder_for_sentence_transformers(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError):
        sentences.write_sentence_transformer(classifier(encoder, "model=mean"), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_vector_is_what_the_head_reads(encoder: Path) -> None:
    trained = classifier(encoder, *PRETRAINED)
    vectors_NP = trained.embed([*TEXTS, ""])
    assert np.isnan(vectors_NP[-1]).all()
    logits_NC = trained.model.head(torch.from_numpy(vectors_NP[:-1])).softmax(dim=1)
    expected = [list(prediction.probabilities.values()) for prediction in trained.predict(TEXTS)]
    np.testing.assert_allclose(logits_NC.detach().numpy(), expected, atol=1e-5)
