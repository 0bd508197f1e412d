"""torchtext's datasets, tokenizer and vector caches, held against torchtext itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import fault_of
from torchtext.data import Dataset, Example, Field, LabelField, get_tokenizer
from torchtext.vocab import Vectors

from sentattn.data.datamodule import TextData
from sentattn.data.tokenizer import Tokenizer
from sentattn.data.torchtext import from_torchtext
from sentattn.data.word_vectors import read_vectors

FIELDS = (("text", Field(tokenize="basic_english", lower=True)), ("label", LabelField()))
REVIEWS = [('A "very" good film; it\'s fun.<br />Yes!', "pos"), ("Bad, bad (really) film: no.", "neg")]


def dataset(rows: list[tuple[str, str]]) -> Dataset:
    return Dataset([Example.fromlist(row, FIELDS) for row in rows], FIELDS)


@given(st.text(alphabet=st.sampled_from("aBÇİ '\".,()!?;:<br/> \n\t\x1c\u2028é1-_")) | st.text())
@example('<br />a<"br />b<BR />c"d"e')
@example("a'É İstanbul")
def test_basic_english_has_the_tokens_of_torchtext(text: str) -> None:
    text = text.replace("\N{GREEK CAPITAL LETTER SIGMA}", "s")  # Python lowercases it by its place in the word
    expected = get_tokenizer("basic_english")(text)
    [encoded] = Tokenizer(sorted(set(expected)), rules="basic_english").encode([text])
    words = ["<pad>", "<unk>", *sorted(set(expected))]
    assert [words[number] for number in encoded.ids] == expected
    ends = [0, *(end for _, end in encoded.spans)]
    assert all(before <= start < end for before, (start, end) in zip(ends, encoded.spans, strict=False))
    assert encoded.tokens == [text[start:end] for start, end in encoded.spans]


def test_datasets_become_a_data_module_with_the_same_tokens_and_labels(tmp_path: Path) -> None:
    train, test = dataset(REVIEWS * 10), dataset(REVIEWS)
    data = from_torchtext(train, None, test, folder=tmp_path / "tables", cache_dir=str(tmp_path), min_count=1)
    assert isinstance(data, TextData)
    rows = data.split("test")
    assert [data.labels[label] for label in rows.labels] == ["pos", "neg"]
    words = ["<pad>", "<unk>", *data.tokenizer.words]
    for row, expected in enumerate(test.examples):
        assert [words[number] for number in data.tokenizer.encode([rows.texts(row)])[0].ids] == expected.text
    assert len(data.split("train").labels) + len(data.split("val").labels) == 20
    assert set(data.files) == {"train", "test"}


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="stars"):
        from_torchtext(dataset(REVIEWS), folder=tmp_path, label="stars")


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vectors:
    """Vectors as torchtext caches those of the name glove.6B.50d."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{word} {' '.join(str(i / 8) for i in range(first, first + 50))}" for first, word in enumerate("abcd")]
    Path(".vector_cache").mkdir()
    Path(".vector_cache/glove.6B.50d.txt").write_text("\n".join(lines) + "\n")
    return Vectors("glove.6B.50d.txt")  # it writes .vector_cache/glove.6B.50d.txt.pt


def test_cached_vectors_are_those_of_torchtext(cached: Vectors, tmp_path: Path) -> None:
    words = ["d", "A", "none"]
    found = read_vectors(
        ".vector_cache/glove.6B.50d.txt.pt", words, cache=tmp_path / "cache", mirror=None, progress=lambda *_: None
    )
    torch.testing.assert_close(found.vectors_VE[2:], cached.get_vecs_by_tokens(words, lower_case_backup=True))
    assert found.found_V.tolist() == [False, False, True, True, False]


@pytest.mark.parametrize(
    "content",
    [
        b"no archive",
        b"the 0.1 0.2\n",
        b"hello world",
        ["a"],
        (["a"], {}, torch.zeros(2, 3), 3),
        (["a"], {}, torch.full((1, 3), torch.nan), 3),
    ],
)
def test_another_file_is_refused(content: object, tmp_path: Path) -> None:
    path = tmp_path / "vectors.pt"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    fault = fault_of(lambda: read_vectors(str(path), ["a"], cache=tmp_path, mirror=None, progress=lambda *_: None))
    assert (fault.key, fault.kind) == ("data.vectors", "damaged")
    assert "weights_only" not in fault.message, "it is not to be loaded in another way"
