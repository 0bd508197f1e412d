"""Vectors of the words of a vocabulary: read from a file or computed from the training rows, and cached.

Files are GloVe or word2vec text, plain, compressed or in a zip, and torchtext's caches. torch is imported late, because
the width of the vectors is checked with the settings; torchtext is never imported.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import pickle
import reprlib
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from sentattn.config.schema import TRAIN
from sentattn.data.cache import Progress, cached, sample
from sentattn.data.readers.archives import neighbour, open_file, reading
from sentattn.data.readers.download import fetch
from sentattn.data.tokenizer import SPECIALS
from sentattn.errors import DataError, Fault, first_line, suggestion
from sentattn.run import save_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from sentattn.data.corpus import Corpus

KEY = "data.vectors"
ARCHIVES = {
    "glove.6B": ("glove.6B.zip", (50, 100, 200, 300)),
    "glove.42B": ("glove.42B.300d.zip", (300,)),
    "glove.840B": ("glove.840B.300d.zip", (300,)),
    "glove.twitter.27B": ("glove.twitter.27B.zip", (25, 50, 100, 200)),
}
VECTOR_NAMES = {
    f"{series}.{width}d": (archive, width) for series, (archive, widths) in ARCHIVES.items() for width in widths
}
"""Archive and width of the vectors that can be downloaded by name."""
TORCHTEXT = ".pt"
"""The ending of files in which torchtext caches vectors."""
NOT_READ = (OSError, EOFError, RuntimeError, ValueError, TypeError, AttributeError, LookupError, pickle.UnpicklingError)
"""What `torch.load` raises for a file that it does not read."""
TEXT_ENDINGS = (".txt", ".vec")
MAX_LINE_BYTES = 1 << 20
"""A file whose first line is longer is no text."""
BINARIES = {
    b"\xba\x16\x4f\x2f": "it is a model of fastText: take its .vec file, or convert it with gensim: "
    "load_facebook_vectors(FILE).save_word2vec_format(OTHER_FILE)",
    b"\x93NUMPY": "it is an array, which has no words: write a word and its numbers on each line",
}
"""What to do with other files of vectors, by their first bytes."""
FIRST_LINES, MIN_WIDTH = 10, 3
"""Lines that tell the width; a line with fewer numbers may be a header."""
MAX_FLOAT32 = 3.4028234e38
PROGRESS_LINES = 10_000
FORMAT = 2
TRAINED_FORMAT = "svd 1"
WINDOW = 5
"""Tokens on either side of a word that are its contexts."""
SMOOTHING = 0.75
"""Power of the number of a context: rare contexts have a high information by chance."""
SCALE = 0.2
"""Root mean square of a word's vector."""
VECTORS, WORDS = "vectors", "words"
"""Names of the matrix, one row per word, and of the list of words in the cached file."""
Table: TypeAlias = tuple[dict[str, int], "Tensor"]
"""The row of each word in vectors_FE, and vectors_FE, (words of the file, width), float32."""
Vectors: TypeAlias = dict[str, NDArray[np.float32]]
"""The vector of each word."""


@dataclass(frozen=True)
class WordVectors:
    """The vectors of a vocabulary's words.

    Attributes:
        name: Their name or file name, for messages.
        vectors_VE: Vector of each id, special tokens included, float32; zeros if the word has no vector.
        found_V: Whether each id has a vector, bool.
        trained: Whether they were trained on the training rows.
    """

    name: str
    vectors_VE: Tensor
    found_V: Tensor
    trained: bool = False

    @property
    def fingerprint(self) -> str:
        """Hash of the vectors, independent of their file, 16 hexadecimal digits; of trained ones, their method."""
        if self.trained:  # the training rows determine them, though not bit by bit on every processor
            return f"{TRAIN} {TRAINED_FORMAT}"
        content = hashlib.sha256(self.found_V.numpy().tobytes())
        content.update(self.vectors_VE.numpy().tobytes())
        return content.hexdigest()[:16]


def width(vectors: str) -> int:
    """Returns the width of the vectors that `data.vectors` names, from their name or the first lines of the file.

    Raises:
        DataError: If there is no such file, or it contains no vectors.
    """
    if vectors in VECTOR_NAMES:
        return VECTOR_NAMES[vectors][1]
    file = VectorFile.named(vectors)
    return read_torchtext(file.path)[1].shape[1] if file.path.suffix == TORCHTEXT else file.shape()[0]


class VectorFile(NamedTuple):
    """A file of vectors, or the member of a zip."""

    path: Path
    member: str = ""

    def __str__(self) -> str:
        return str(self.path / self.member)

    @classmethod
    def named(cls, vectors: str) -> VectorFile:
        """Finds a local file; the path of a member of a zip begins with the path of the zip.

        Raises:
            DataError: If there is no such file, or the zip has several.
        """
        path = Path(vectors).expanduser()
        file = next((place for place in (path, *path.parents) if place.is_file()), None)
        if file is not None and file.suffix != TORCHTEXT and zipfile.is_zipfile(file):
            name = path.relative_to(file).as_posix()
            with reading(file, KEY), zipfile.ZipFile(file) as archive:
                names = [member for member in archive.namelist() if not member.startswith("__MACOSX/")]
            texts = [member for member in names if member.endswith(TEXT_ENDINGS)]
            if name in names or (name == "." and len(texts) == 1):
                return cls(file, name if name in names else texts[0])
            listed = reprlib.repr(texts or names)
            message = f"{KEY}={file / name} must name one file in the archive, which contains {listed}."
            raise DataError(Fault(KEY, "not_found", message + suggestion(name, names)))
        if file == path:
            return cls(path)
        close = (
            neighbour(path)
            or suggestion(vectors, [TRAIN, *VECTOR_NAMES])
            or f" The names are {', '.join(VECTOR_NAMES)}."
        )
        message = f"{KEY}={vectors} is neither {TRAIN}, a file nor the name of known vectors.{close}"
        raise DataError(Fault(KEY, "not_found", message))

    @property
    def identity(self) -> tuple[str, str | None, int, int, str]:
        """File name, member, size in bytes, modification time in nanoseconds, and a hash of both ends."""
        with reading(self.path, KEY):
            size, time, ends = sample(self.path)
        return self.path.name, self.member or None, size, time, hashlib.sha256(ends).hexdigest()

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Opens it, decompressed.

        Raises:
            DataError: If it is damaged.
        """
        with reading(self.path, KEY):
            if not self.member:
                with open_file(self.path) as stream:
                    yield stream
                return
            with zipfile.ZipFile(self.path) as archive:
                try:
                    member = archive.open(self.member)
                except RuntimeError as error:  # encrypted, or a method of compression that is not known
                    raise zipfile.BadZipFile(str(error)) from error
                with member:
                    yield member

    def shape(self) -> tuple[int, int | None]:
        """Returns the numbers per word, and the number of words in the header (word2vec), or None without one (GloVe).

        Raises:
            DataError: If the first lines are no vectors.
        """
        with self.open() as stream:
            first, *others = [stream.readline(MAX_LINE_BYTES).removeprefix(codecs.BOM_UTF8) for _ in range(FIRST_LINES)]
        if advice := next((advice for magic, advice in BINARIES.items() if first.startswith(magic)), ""):
            raise DataError(Fault(KEY, "damaged", f"{self} is not UTF-8 text; {advice}."))
        fields = first.split()
        is_header = len(fields) == 2 and all(field.isdigit() for field in fields)
        # Most lines have the width: a phrase such as `route 66` ends in a number of its own, a bad line lacks one.
        counts = Counter(_trailing_numbers(line.split()) for line in [first] * (not is_header) + others if line.split())
        found = max(counts, key=lambda number: (counts[number], -number), default=0)
        width = int(fields[1]) if is_header else found
        if not MIN_WIDTH <= width <= found:
            got = reprlib.repr((first + others[0]).decode(errors="replace"))
            message = (
                f"{self} must begin with a word and at least {MIN_WIDTH} numbers, separated by spaces, optionally "
                f"after a line WORDS NUMBERS with the number of words and the width, got {got}. Binary files are "
                "converted by gensim: KeyedVectors.load_word2vec_format(FILE, binary=True).save_word2vec_format(OTHER)."
            )
            raise DataError(Fault(KEY, "damaged", message))
        return width, int(fields[0]) if is_header else None

    def lines(self, wanted: Collection[str], progress: Progress) -> Iterator[tuple[str, list[bytes]]]:
        """Yields the wanted words and their numbers in file order, with one line in memory at a time.

        Words may contain spaces, and end in a number such as `windows 95`: the vector is the last numbers of a line.
        Lines of other words are checked for their number of fields only; a word may be empty or not UTF-8.

        Raises:
            DataError: With the number of the invalid line.
        """
        width, in_header = self.shape()
        words = 0
        with self.open() as stream:
            for number, line in enumerate(stream, start=1):
                if number % PROGRESS_LINES == 0:
                    progress("Reading vectors", number, in_header)
                fields = line.removeprefix(codecs.BOM_UTF8).split()
                if not fields or (number == 1 and in_header is not None):
                    continue
                words += 1
                word_fields, numbers = fields[:-width], fields[-width:]
                word = b" ".join(word_fields).decode(errors="replace")
                is_wanted = word in wanted
                # More than one field before the numbers is rare: a word with a space, or a line with too many numbers.
                last = word_fields[-1] if len(word_fields) > 1 else b""
                is_longer = _is_number(last) and not last.isdigit()
                is_read = is_wanted or not word
                if len(numbers) < width or is_longer or (is_read and not all(map(_is_number, numbers))):
                    got = reprlib.repr(line.decode(errors="replace").strip())
                    message = f"{self}, line {number:,}: must be a word and {width} finite numbers, got {got}."
                    raise DataError(Fault(KEY, "damaged", message))
                if is_wanted:
                    yield word, numbers
        if in_header not in (None, words):
            message = f"{self} must hold {in_header:,} words by its header, got {words:,}; it may be truncated."
            raise DataError(Fault(KEY, "damaged", message))


def _trailing_numbers(fields: list[bytes]) -> int:
    """Returns how many fields at the end of a line are numbers; the first field is the word."""
    return len(list(takewhile(_is_number, reversed(fields[1:]))))


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= MAX_FLOAT32 and b"_" not in field  # False for NaN
    except ValueError:
        return False


def read_torchtext(path: Path) -> tuple[list[str], Tensor]:
    """Reads a file in which torchtext has cached vectors, without running code in it.

    Returns:
        The words, and vectors_FE, one row per word, float32.

    Raises:
        DataError: If the file holds something else.
    """
    import torch

    try:
        words, _, vectors_FE, width = torch.load(path, map_location="cpu", weights_only=True, mmap=None)
        if vectors_FE.shape != (len(words), width) or not all(isinstance(word, str) for word in words):
            raise ValueError("its words and vectors do not fit")
        if not vectors_FE.isfinite().all():
            raise ValueError("it holds NaN or infinite numbers")
    except NOT_READ as error:
        reason = first_line(error)
        if isinstance(error, pickle.UnpicklingError):  # torch advises to load it all the same
            reason = "it is no file of torch, or holds more than tensors and texts"
        message = f"{path} must hold vectors cached by torchtext (words, their rows, a matrix, its width): {reason}."
        raise DataError(Fault(KEY, "damaged", message)) from error
    return words, vectors_FE.float()


def read_vectors(
    vectors: str, words: Sequence[str], *, cache: Path, mirror: str | None, progress: Progress
) -> WordVectors:
    """Reads the vectors of words; a word without a vector gets the vector of its lower case.

    Only the vectors of these words are held in memory. If the file has a word twice, the first line counts.

    Args:
        vectors: A name such as `glove.6B.300d`, downloaded if it is not cached, or a file, also a `.pt` file of
            torchtext's cache.
        words: The vocabulary, by id, without the special tokens.
        cache: The cache folder.
        mirror: Address of a server, or a folder, that replaces the official address.
        progress: Called with the progress of the work.

    Raises:
        DataError: If the file is missing, damaged or no file of vectors, or has no vector for any word.
    """
    wanted = {form for word in words for form in (word, word.lower())}
    file = None if vectors in VECTOR_NAMES else VectorFile.named(vectors)

    def read() -> Vectors:
        table: Vectors = {}
        if file and file.path.suffix == TORCHTEXT:
            all_words, vectors_FE = read_torchtext(file.path)
            table = {word: vectors_FE[row].numpy() for row, word in enumerate(all_words) if word in wanted}
        else:
            source = file
            if source is None:
                archive = fetch(VECTOR_NAMES[vectors][0], folder=cache, mirror=mirror, progress=progress)
                source = VectorFile(archive, f"{vectors}.txt")
            for word, numbers in source.lines(wanted, progress):
                if word not in table:
                    table[word] = np.array(numbers, dtype=np.float32)
        if not table:
            message = f"{vectors} has no vector for any word of the training rows; are they of another language, or in "
            raise DataError(Fault(KEY, "missing", f"{message}another case (data.lowercase)?"))
        return table

    identity = [FORMAT, file.identity if file else vectors, sorted(wanted)]
    table = cached_table(identity, read, cache=cache, progress=progress)
    return align(table, words, name=vectors if vectors in VECTOR_NAMES else Path(vectors).name)


def align(table: Table, words: Sequence[str], *, name: str, trained: bool = False) -> WordVectors:
    """Returns the vectors of words by id; a word without a vector gets the vector of its lower case."""
    import torch

    row_of, vectors_FE = table
    rows = [row_of.get(word, row_of.get(word.lower())) for word in words]
    vectors_VE = torch.zeros(len(SPECIALS) + len(words), vectors_FE.shape[1])
    found_V = torch.tensor([False] * len(SPECIALS) + [row is not None for row in rows])
    vectors_VE[found_V] = vectors_FE[[row for row in rows if row is not None]]
    return WordVectors(name, vectors_VE, found_V, trained)


def cached_table(identity: object, make: Callable[[], Vectors], *, cache: Path, progress: Progress) -> Table:
    """Returns the vectors that `make` computes, from the cache if it has an entry of this identity, JSON data."""
    entry = cache / f"vectors-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]}.safetensors"

    def read() -> Table | None:
        try:
            with safe_open(entry, "pt") as file:
                words, vectors_FE = json.loads(file.metadata()[WORDS]), file.get_tensor(VECTORS)
        except (OSError, SafetensorError):  # the file is missing or damaged
            return None
        return {word: row for row, word in enumerate(words)}, vectors_FE

    def write(fresh: Path) -> None:
        import torch

        vectors = make()
        tensors = {VECTORS: torch.from_numpy(np.stack([*vectors.values()]))}
        save_tensors(tensors, fresh, {WORDS: json.dumps([*vectors])})

    return cached(entry, read, write, progress)


def train_vectors(
    words: Sequence[str], corpus: Corpus, rows: NDArray[np.int64], *, size: int, cache: Path, progress: Progress
) -> WordVectors:
    """Computes vectors of the vocabulary from whole training texts, by `factorize`.

    They depend only on these texts, the vocabulary and the size, and are cached: all variants and seeds start from the
    same vectors. `words`, `cache` and `progress` are those of `read_vectors`, `rows` are the training rows of the
    corpus, and `size` is the number of numbers per word.

    Raises:
        DataError: If no text has two known words.
    """
    texts = hashlib.sha256(corpus.row_ids[rows].tobytes()).hexdigest()
    identity = [TRAINED_FORMAT, WINDOW, SMOOTHING, SCALE, corpus.folder.name, texts, list(words), size]

    def compute() -> Vectors:
        number_of = {word: number for number, word in enumerate(words)}
        number_W = np.array([number_of.get(word, -1) for word in corpus.words])
        spans = np.stack([corpus.token_offsets[rows], corpus.token_offsets[rows + 1]], axis=1)
        tokens_N = number_W[np.concatenate([corpus.tokens[start:end] for start, end in spans])]
        texts_N = np.repeat(np.arange(len(rows)), corpus.lengths[rows])
        is_known_N = tokens_N >= 0
        tokens_N, texts_N = tokens_N[is_known_N], texts_N[is_known_N]
        vectors_VE = factorize(tokens_N, texts_N, len(words), size=size, progress=progress)
        return {words[number]: vectors_VE[number] for number in np.unique(tokens_N)}

    table = cached_table(identity, compute, cache=cache, progress=progress)
    return align(table, words, name=TRAIN, trained=True)


def factorize(
    tokens_N: NDArray[np.int64], texts_N: NDArray[np.int64], words: int, *, size: int, progress: Progress
) -> NDArray[np.float32]:
    """Returns vectors_VE of words, the truncated SVD of their positive pointwise mutual information.

    M_wc = max(0, log(n_wc sum_c' n_c'^a / (n_w n_c^a))) with a = `SMOOTHING`, where n_wc counts the tokens c within
    `WINDOW` tokens of a token w of the same text, the nearest `WINDOW` times and the farthest once (Levy et al. 2015,
    sections 3.1 to 3.3); the vectors are the rows of (U_E + V_E) S_E^0.5 of M = U S V^T, brought to one length.
    Skip-gram with negative samples factorizes such a matrix too (Levy and Goldberg 2014), in more time.

    Args:
        tokens_N: Number of the word of each token.
        texts_N: Number of the text of each token, in order.
        words: Number of words V.
        size: Numbers per word E; those beyond V - 1 are 0.
        progress: Called with the progress of the work.

    Raises:
        DataError: If no text has two tokens.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    counts_VV = csr_array((words, words), dtype=np.float32)
    for distance in range(1, WINDOW + 1):
        progress("Counting pairs of words", distance - 1, WINDOW)
        is_pair = texts_N[:-distance] == texts_N[distance:]
        pairs = tokens_N[:-distance][is_pair], tokens_N[distance:][is_pair]
        weights = np.full(len(pairs[0]), WINDOW + 1 - distance, np.float32)
        counts_VV += csr_array((weights, pairs), shape=counts_VV.shape)
    counts = (counts_VV + counts_VV.T).tocoo()
    if not counts.nnz or words == 1:
        message = "data.vectors=train needs training texts of two known words: lower data.min_count, or leave it out."
        raise DataError(Fault(KEY, "missing", message))
    progress("Computing word vectors", 0, 1)
    number_V = counts.sum(axis=0).astype(np.float64)
    context_V = number_V**SMOOTHING / (number_V**SMOOTHING).sum()
    w, c = counts.coords
    information = np.log(np.maximum(counts.data / number_V[w] / context_V[c], 1)).astype(np.float32)
    matrix_VV = csr_array((information, (w, c)), shape=counts.shape)
    matrix_VV.eliminate_zeros()
    start_V = np.random.default_rng(0).random(words, np.float32)
    left_VE, values_E, right_EV = svds(matrix_VV, k=min(size, words - 1), v0=start_V)
    vectors_VE = (left_VE + right_EV.T) * np.sqrt(values_E)
    length_V1 = np.linalg.norm(vectors_VE, axis=1, keepdims=True)
    vectors_VE *= SCALE * np.sqrt(size) / np.maximum(length_V1, 1e-4 * length_V1.max())  # less is rounding
    return np.pad(vectors_VE, ((0, 0), (0, size - len(values_E)))).astype(np.float32)
