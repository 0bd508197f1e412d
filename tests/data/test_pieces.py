"""Subword tokenizers: ids, spans on the original text, special tokens, clipping."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from encoder_files import SPECIAL, write_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models, pre_tokenizers, processors, trainers

from sentattn.config.compose import compose
from sentattn.data.pieces import PieceTokenizer, read_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def library(folder: Path) -> LibraryTokenizer:
    library = LibraryTokenizer.from_file(str(folder / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    return library


def test_ids_are_the_librarys_in_another_order(folder: Path, library: LibraryTokenizer) -> None:
    tokenizer = read_tokenizer(str(folder))
    text = "The film was not good, but the ending is great!"
    [encoded] = tokenizer.encode([text])
    whole = library.encode(text)
    assert tokenizer.library_ids_V[encoded.ids].tolist() == whole.ids
    assert encoded.spans[1:-1] == whole.offsets[1:-1]
    assert sorted(tokenizer.library_ids_V.tolist()) == list(range(len(tokenizer)))
    assert len(tokenizer) == library.get_vocab_size() == len(tokenizer.words) + 2


def test_padding_and_unknown_tokens_are_the_first_ids_and_other_special_tokens_follow(folder: Path) -> None:
    tokenizer = read_tokenizer(str(folder))
    assert tokenizer.num_special == len(SPECIAL)
    assert [tokenizer.pieces[i] for i in range(2)] == ["[PAD]", "[UNK]"]
    assert tokenizer.pieces[tokenizer.mask_id] == "[MASK]"
    [encoded] = tokenizer.encode(["\u4e2d"])
    assert encoded.ids[1:-1].tolist() == [1]


def test_special_tokens_have_empty_spans_and_are_not_read_from_a_text(folder: Path) -> None:
    tokenizer = read_tokenizer(str(folder))
    [encoded] = tokenizer.encode(["good [SEP] film"])
    assert (encoded.tokens[0], encoded.tokens[-1]) == ("[CLS]", "[SEP]")
    assert (encoded.spans[0], encoded.spans[-1]) == ((0, 0), (15, 15))
    assert all(start < end for start, end in encoded.spans[1:-1])
    special = {*tokenizer.prefix.tolist(), *tokenizer.suffix.tolist()}
    assert not special & {*encoded.ids[1:-1].tolist()}


@pytest.mark.parametrize(
    ("clip", "kept"), [("head", [0, 1, 2, 3]), ("tail", [-4, -3, -2, -1]), ("both", [0, 1, -2, -1])]
)
def test_a_long_text_keeps_its_special_tokens(folder: Path, clip: str, kept: list[int]) -> None:
    text = "the film was good and the ending was bad"
    [whole] = read_tokenizer(str(folder)).encode([text])
    [encoded] = read_tokenizer(str(folder), max_length=6, clip=clip).encode([text])  # type: ignore[arg-type]
    assert encoded.ids.tolist() == [whole.ids[0], *(whole.ids[1:-1][i] for i in kept), whole.ids[-1]]
    assert encoded.spans[1:-1] == [whole.spans[1:-1][i] for i in kept]


def test_a_text_without_a_piece_is_empty(folder: Path) -> None:
    [encoded] = read_tokenizer(str(folder)).encode(["  "])
    assert (len(encoded.ids), encoded.tokens, encoded.spans) == (0, [], [])


@pytest.mark.parametrize("line_break", ["<br />", "<br/><br />", " <BR> <br>\n", "\n"])
def test_line_breaks_are_white_space(folder: Path, line_break: str) -> None:
    tokenizer = read_tokenizer(str(folder))
    text, plain = f"the film was good.{line_break}The ending was not.", "the film was good. The ending was not."
    encoded, expected = tokenizer.encode([text, plain])
    assert encoded.ids.tolist() == expected.ids.tolist()
    assert encoded.tokens == expected.tokens
    assert tokenizer.read(text) == tokenizer.read(plain)


def test_line_breaks_of_a_byte_level_tokenizer() -> None:
    library = LibraryTokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet, special = pre_tokenizers.ByteLevel.alphabet(), ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    library.train_from_iterator(["a good film of the world"] * 3, trainer)
    tokenizer = PieceTokenizer(library.to_str())
    with_break, plain = tokenizer.encode(["a good<br /><br />film", "a good film"])
    assert with_break.ids.tolist() == plain.ids.tolist()


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_spans_are_those_of_the_pieces_that_are_read(folder: Path, text: str) -> None:
    tokenizer = shared_tokenizer(folder)
    [encoded] = tokenizer.encode([text])
    assert encoded.ids[1:-1].tolist() == tokenizer.read(text).tolist()
    bounds = [place for span in encoded.spans for place in span]
    assert bounds == sorted(bounds)
    assert encoded.tokens[1:-1] == [text[start:end] for start, end in encoded.spans[1:-1]]


@functools.cache
def shared_tokenizer(folder: Path) -> PieceTokenizer:
    return read_tokenizer(str(folder))


def test_saved_and_read_again(folder: Path, tmp_path: Path) -> None:
    tokenizer = read_tokenizer(str(folder))
    tokenizer.save(tmp_path / "tokenizer.json")
    again = read_tokenizer(str(tmp_path / "tokenizer.json"))
    assert again.fingerprint == tokenizer.fingerprint
    np.testing.assert_array_equal(again.library_ids_V, tokenizer.library_ids_V)


WITHOUT_ITS_UNKNOWN = str(LibraryTokenizer(models.WordPiece({"[PAD]": 0, "good": 1}, unk_token="[UNK]")).to_str())


def with_an_unknown_special_token() -> str:
    library = LibraryTokenizer(models.WordPiece({"[UNK]": 0, "[CLS]": 1}, unk_token="[UNK]"))
    library.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    return str(library.to_str()).replace('"SpecialToken":{"id":"[CLS]"', '"SpecialToken":{"id":"[SEP]"')


@pytest.mark.parametrize(
    "broken",
    ["", "[]", "{}", '{"version": "1.0"}', "[" * 50_000, WITHOUT_ITS_UNKNOWN, with_an_unknown_special_token()],
)
def test_no_tokenizer(tmp_path: Path, broken: str) -> None:
    (tmp_path / "tokenizer.json").write_text(broken)
    assert refused(lambda: read_tokenizer(str(tmp_path))) == [("data.tokenizer", "unreadable")]


def test_a_tokenizer_of_a_decoder_gets_padding_and_a_first_token(tmp_path: Path) -> None:
    vocab = {"<|im_end|>": 0, "o": 1, "k": 2, "<|endoftext|>": 3}
    library = LibraryTokenizer(models.BPE(vocab=vocab, merges=[]))
    library.add_special_tokens(["<|endoftext|>"])
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = read_tokenizer(str(tmp_path), max_length=3)
    assert tokenizer.pieces[:3] == ["<pad>", "<unk>", "<|endoftext|>"]
    assert tokenizer.library_ids_V.tolist() == [3, 3, 3, 0, 1, 2]
    [encoded, empty] = tokenizer.encode(["okok", ""])
    assert tokenizer.library_ids_V[encoded.ids].tolist() == [3, 1, 2]
    assert (encoded.ids.tolist(), len(empty.ids)) == ([2, 4, 5], 0)


def test_a_tokenizer_with_a_token_for_padding_gets_no_first_token(tmp_path: Path) -> None:
    library = LibraryTokenizer(models.BPE(vocab={"<pad>": 0, "<unk>": 1, "o": 2}, merges=[], unk_token="<unk>"))
    library.add_special_tokens(["<pad>", "<unk>"])
    library.save(str(tmp_path / "tokenizer.json"))
    assert read_tokenizer(str(tmp_path)).encode(["oo"])[0].ids.tolist() == [2, 2]


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "no-such/name"])
def test_no_such_folder_or_name(name: str) -> None:
    assert refused(lambda: read_tokenizer(name)) == [("data.tokenizer", "not_found")]


def test_a_revision_follows_the_name_and_no_weights_are_downloaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str | None, list[str]]] = []

    def download(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, revision, allow_patterns))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    settings = compose(["model=pretrained", "model.embedding.name=some/encoder", "model.embedding.revision=v2"])
    read_tokenizer(settings["data"]["tokenizer"])
    read_tokenizer(compose(["model=pretrained", "model.embedding.name=some/encoder"])["data"]["tokenizer"])
    files = ["tokenizer.json", "tokenizer_config.json"]
    assert asked == [("some/encoder", "v2", files), ("some/encoder", None, files)]


def test_a_folder_without_a_fast_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    assert refused(lambda: read_tokenizer(str(tmp_path))) == [("data.tokenizer", "missing")]


def test_a_length_without_room_for_pieces(folder: Path) -> None:
    assert refused(lambda: read_tokenizer(str(folder), max_length=2)) == [("data.max_length", "range")]


@pytest.mark.parametrize(("lower", "is_refused"), [(True, False), (False, True), (None, False)])
def test_a_configuration_that_contradicts_the_case_is_refused(
    folder: Path, tmp_path: Path, lower: bool | None, is_refused: bool
) -> None:
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())  # which lower-cases
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    if not is_refused:
        assert len(read_tokenizer(str(tmp_path))) == len(read_tokenizer(str(folder)))
        return
    assert refused(lambda: read_tokenizer(str(tmp_path))) == [("data.tokenizer", "unreadable")]


def test_a_normalizer_of_another_type_has_no_case(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(content | {"normalizer": ["a"]}))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert len(read_tokenizer(str(tmp_path))) == len(read_tokenizer(str(folder)))


def test_special_tokens_are_found_without_latin_letters(tmp_path: Path) -> None:
    library = LibraryTokenizer(
        models.BPE(vocab={"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "я": 4, "д": 5}, merges=[])
    )
    library.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    library.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    library.save(str(tmp_path / "tokenizer.json"))
    [encoded] = read_tokenizer(str(tmp_path)).encode(["дя"])
    assert encoded.tokens == ["<s>", "д", "я", "</s>"]
