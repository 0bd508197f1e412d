"""Training, validation and test rows of a corpus: stratified selections, by row or by group."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sentattn.data.corpus import NO_GROUP, Corpus, Rows, apportion
from sentattn.errors import DataError, Fault

Mask: TypeAlias = NDArray[np.bool_]

Splits: TypeAlias = dict[str, Rows]
By: TypeAlias = Literal["group", "row"]

MAX_SHOWN = 10
"""Most classes in a message."""
MAX_TEST_ROWS, TEST_SHARE = 10_000, 0.1
"""Default number and share of test rows if the source has none; the smaller is used."""


class Selection(NamedTuple):
    """The rows of `train`, `val` and `test`, and notes about them for the user."""

    rows: Splits
    notes: list[str]

    def fingerprint(self, corpus: Corpus) -> str:
        """Returns a hash over texts and labels of all splits, 16 hexadecimal digits."""
        content = hashlib.sha256()
        for split, rows in self.rows.items():
            content.update(f"{split} {len(rows)}\n".encode())
            content.update(corpus.row_ids[rows].tobytes())
            content.update(corpus.labels[rows].tobytes())
        return content.hexdigest()[:16]


class Division:
    """How the rows of a source are divided.

    Attributes:
        val_size: Number or share of training rows used for validation; None uses the validation rows of the source.
        val_by: Whether to draw whole groups or single rows from the training rows, for validation and, if the source
            has no test rows, for testing.
        split_seed: Seed of this selection.
        test_size: Number or share of the test rows of the source, or of its training rows if it has none, of which 0
            takes none. None: its test rows, or else a tenth of its training rows, at most 10,000.
        test_seed: Seed of a stratified selection of test rows; None for the last rows.
        folds: Number of folds of all rows, of which one is the test set; None for none. They are drawn with
            `split_seed` plus `seed`.
        fold: Which one, from 0.
        seed: Seed of the training.
        train_size: Number of training rows, stratified by class; None for all.
        train_seed: Seed of their selection; None for `split_seed`.
        drop_duplicates: Whether to drop rows outside the test split whose text occurs earlier in their split or in a
            later split.
    """

    val_size: float | None = None
    val_by: By = "row"
    split_seed: int = 0
    test_size: float | None = None
    test_seed: int | None = None
    folds: int | None = None
    fold: int = 0
    seed: int = 0
    train_size: int | None = None
    train_seed: int | None = None
    drop_duplicates: bool = False


def select(corpus: Corpus, division: Division) -> Selection:
    """Selects rows from the splits of the source: test rows first, training rows last.

    A source without training rows, on which a trained model is tested, keeps its splits.

    Raises:
        DataError: If a split is empty or has fewer rows than a setting asks for, or its groups cannot be divided.
    """
    trains, val_size, val_by = "train" in corpus.splits, division.val_size, division.val_by
    if trains and "val" not in corpus.splits and val_size is None:
        message = "The data has no validation rows: its class must set val_size, such as 0.1, or its source have val."
        raise DataError(Fault("data.val_size", "missing", message))
    split_seed = division.split_seed + (division.seed if division.folds else 0)
    rows, notes = dict(corpus.splits), list[str]()
    if trains:
        others = ["val"] * (val_size is not None) + ["test"] * ("test" not in rows and division.test_size != 0)
        if others and len(rows["train"]) < (needed := 2 + len(others)):
            message = f"{len(rows['train'])} rows are too few: {needed} at least, with rows for {' and '.join(others)}."
            raise DataError(Fault("data.train", "missing", message))
    if trains and division.folds is not None:
        notes += _select_fold(corpus, rows, division.folds, division.fold, split_seed, val_by)
    elif trains or "test" in rows:
        notes += _select_test(corpus, rows, division)
    before = sum(map(len, rows.values()))
    rows = {split: its_rows[corpus.lengths[its_rows] > 0] for split, its_rows in rows.items()}
    if empty := before - sum(map(len, rows.values())):
        notes.append(f"Dropped rows without a token: {empty:,}.")
    notes += _duplicates(corpus, rows, division.drop_duplicates)
    if division.drop_duplicates:
        rows = _without_duplicates(corpus, rows)
        if trains and not len(rows["train"]):
            message = "data.drop_duplicates=true drops all training rows: their texts are in later splits."
            raise DataError(Fault("data.drop_duplicates", "missing", message))
    if val_size is not None and trains:
        all_rows = rows.pop("train")
        groups = corpus.groups[all_rows] if val_by == "group" else None
        number = num_rows("data.val_size", val_size, len(all_rows), most=len(all_rows) - 1)
        is_val = _draw(corpus.labels[all_rows], groups, number, split_seed)
        rows = {"train": all_rows[~is_val], "val": all_rows[is_val], **rows}
        notes += [] if groups is None else [_groups_note("Validation", groups, is_val)]
    if (train_size := division.train_size) is not None and trains:
        most = len(rows["train"])
        if train_size > most:
            message = f"data.train_size must be at most {most} after validation and test rows, got {train_size}."
            raise DataError(Fault("data.train_size", "range", message))
        seed = split_seed if division.train_seed is None else division.train_seed
        rows["train"] = rows["train"][draw(corpus.labels[rows["train"]], train_size, seed)]
    for split, its_rows in rows.items():
        if not len(its_rows):
            raise DataError(Fault(f"data.{split}", "missing", f"No {split} row is left; provide more rows."))
    return Selection(rows, notes)


def _select_test(corpus: Corpus, splits: Splits, division: Division) -> list[str]:
    """Selects test rows from the test rows of the source, or else from its training rows; returns notes."""
    split, size, seed = "test" if "test" in splits else "train", division.test_size, division.test_seed
    if split == "train" and size == 0:
        return []
    rows = splits[split]
    if split == "test" and size is None:
        return []
    if size is None:
        size = max(1, min(MAX_TEST_ROWS, round(TEST_SHARE * len(rows))))
    number = num_rows("data.test_size", size, len(rows), most=len(rows) - (split == "train"))
    groups = corpus.groups[rows] if split == "train" and division.val_by == "group" else None
    if groups is None and seed is None:
        is_test = np.arange(len(rows)) >= len(rows) - number
    else:
        is_test = _draw(corpus.labels[rows], groups, number, seed or 0)
    splits["test"] = rows[is_test]
    if split == "test":
        return []
    splits["train"] = rows[~is_test]
    number = len(splits["test"])
    selected = f"the last {number:,}" if seed is None else f"{number:,} (data.test_seed={seed})"
    notes = [f"The data has no test rows: {selected} of its {len(rows):,} rows are used for testing."]
    return notes if groups is None else [*notes, _groups_note("Test", groups, is_test)]


def _select_fold(corpus: Corpus, splits: Splits, folds: int, fold: int, seed: int, by: By) -> list[str]:
    """Selects a fold of all rows as test rows; returns notes.

    Raises:
        DataError: If the source has rows of its own for another split, or too few rows or groups for so many folds.
    """
    if others := " and ".join(split for split in splits if split != "train"):
        message = f"data.folds={folds} tests each row once, and the data has {others} rows of its own: leave it out."
        raise DataError(Fault("data.folds", "conflict", message))
    if not 0 <= fold < folds:
        raise DataError(Fault("data.fold", "range", f"data.fold must be 0 to {folds - 1}, got {fold}."))
    rows = splits["train"]
    labels, groups = corpus.labels[rows], corpus.groups[rows] if by == "group" else None
    counts = np.bincount(labels)
    if np.any(is_few := (counts > 0) & (counts < folds)):
        few = corpus.classes[int(is_few.argmax())]
        message = f"data.folds={folds} needs {folds} rows of each class, and {few!r} has {counts[is_few.argmax()]}."
        raise DataError(Fault("data.folds", "range", message))
    fold_N = draw_folds(labels, groups, folds, seed)
    if (drawn := len(np.unique(fold_N))) < folds:
        message = f"data.folds={folds} needs as many groups, and there are {drawn}; type data.val_by=row."
        raise DataError(Fault("data.folds", "range", message))
    for label in np.unique(labels):
        if len(np.unique(fold_N[labels == label])) == 1:
            message = f"data.folds={folds}: all rows of {corpus.classes[label]!r} are in one fold, as groups are whole"
            raise DataError(Fault("data.folds", "conflict", f"{message}; type data.val_by=row."))
    is_test = fold_N == fold
    splits |= {"train": rows[~is_test], "test": rows[is_test]}
    notes = [f"data.fold={fold} of {folds}, drawn with seed {seed}: {is_test.sum():,} rows are used for testing."]
    return notes if groups is None else [*notes, _groups_note("Test", groups, is_test)]


def draw_folds(labels: Rows, groups: Rows | None, folds: int, seed: int) -> Rows:
    """Returns the number of each row's fold, from 0: at random, stratified by class, with whole groups.

    Single rows are dealt out class by class, so that folds differ by one row at most, also in the rows of a class. Each
    group goes to the fold that has the smallest share of its classes so far: large groups first, those of about the
    same size in random order. A row without a group is one by itself.
    """
    random, fold_N = np.random.default_rng(seed), np.empty(len(labels), dtype=np.int64)
    if groups is None:
        order = random.permutation(len(labels))
        fold_N[order[np.argsort(labels[order], kind="stable")]] = np.arange(len(labels)) % folds
        return fold_N
    alone = groups.max(initial=0) + 1 + np.arange(len(groups))
    group_N = np.unique(np.where(groups == NO_GROUP, alone, groups), return_inverse=True)[1]
    class_N = np.unique(labels, return_inverse=True)[1]
    start_G, class_P, rows_P = _classes_of_groups(group_N, class_N)
    share_P = rows_P / np.bincount(class_N)[class_P]
    rows_G, fold_G = np.bincount(group_N), np.zeros(len(start_G) - 1, dtype=np.int64)
    drawn_FC, order = np.zeros((folds, class_N.max() + 1)), random.permutation(len(rows_G))
    for group in order[np.argsort(-np.floor(np.log2(rows_G[order])), kind="stable")]:
        own = slice(*start_G[group : group + 2])
        shares_F = drawn_FC[:, class_P[own]] @ rows_P[own]
        fold_G[group] = fold = np.lexsort((drawn_FC.sum(axis=1), shares_F))[0]
        drawn_FC[fold, class_P[own]] += share_P[own]
    fold_N[:] = fold_G[group_N]
    return fold_N


def _classes_of_groups(group_N: Rows, class_N: Rows) -> tuple[Rows, Rows, Rows]:
    """Returns the classes of each group, a group after another: where each group starts, each class, and its rows.

    A group has few of the classes: these P pairs are fewer than G times C.
    """
    classes = int(class_N.max(initial=-1)) + 1
    pairs, rows_P = np.unique(group_N * classes + class_N, return_counts=True)
    group_P, class_P = np.divmod(pairs, classes)
    return np.searchsorted(group_P, np.arange(group_N.max(initial=-1) + 2)), class_P, rows_P


def _draw(labels: Rows, groups: Rows | None, number: int, seed: int) -> Mask:
    """Returns the mask of randomly drawn rows, or of whole groups.

    Raises:
        DataError: If no group can be drawn.
    """
    if groups is None:
        return draw(labels, number, seed)
    if (drawn := draw_groups(labels, groups, number, seed)).any():
        return drawn
    reason = f"a class would have no training rows (groups: {len(np.unique(groups)):,})"
    message = f"data.val_by=group: no whole group can be set aside, since {reason}; type data.val_by=row."
    raise DataError(Fault("data.val_by", "conflict", message))


def _groups_note(split: str, groups: Rows, is_drawn: Mask) -> str:
    """Returns a note with the numbers of groups and of rows without a group that were drawn."""
    drawn, number = (len(np.unique(some[some != NO_GROUP])) for some in (groups[is_drawn], groups))
    single, singles = (np.count_nonzero(some == NO_GROUP) for some in (groups[is_drawn], groups))
    parts = [f"{drawn:,} of {number:,} groups"] if number else []
    parts += [f"{single:,} of {singles:,} rows without a group"] if singles else []
    return f"{split}: {' and '.join(parts)} (data.val_by=group)."


def _duplicates(corpus: Corpus, rows: Splits, dropped: bool) -> list[str]:
    """Returns a note with the numbers of texts in two splits, and of rows that repeat a row of their split."""
    ids = {split: corpus.row_ids[its_rows] for split, its_rows in rows.items()}
    counts = {
        f"in both {first} and {second}": len(np.intersect1d(ids[first], ids[second]))
        for first, second in combinations(ids, 2)
    }
    counts |= {f"again in {split}": int(np.count_nonzero(repeats(ids[split]))) for split in ids}
    repeated = ", ".join(f"{count:,} {where}" for where, count in counts.items() if count)
    kept = f"all but those in {list(rows)[-1]}"
    remedy = f"{kept} were dropped" if dropped else f"data.drop_duplicates=true drops {kept}"
    return [f"Repeated texts: {repeated}; {remedy}."] if repeated else []


def _without_duplicates(corpus: Corpus, rows: Splits) -> Splits:
    """Keeps the last split, and in the others the first row of each text that no later split contains."""
    kept: Splits = {}
    later = corpus.row_ids[:0]
    for split in reversed(rows):
        ids = corpus.row_ids[rows[split]]
        kept[split] = rows[split][~repeats(ids) & ~np.isin(ids, later)] if kept else rows[split]
        later = np.concatenate([later, ids])
    return {split: kept[split] for split in rows}


def num_rows(setting: str, size: float, rows: int, *, most: int) -> int:
    """Returns how many of `rows` a setting selects: a number, or a share below 1 of at least one row.

    Raises:
        DataError: If the number is 0 or above `most`, or there are too few rows to select any.
    """
    number = size if isinstance(size, int) else max(round(size * rows), size > 0)
    if not 0 < number <= most:
        message = f"{setting} must select 1 to {most:,} of {rows:,} rows, or a share such as 0.1, got {size}."
        raise DataError(Fault(setting, "range" if most > 0 else "missing", message))
    return number


def few_rows(corpus: Corpus, rows: Splits, labels: Sequence[str]) -> list[str]:
    """Returns a warning about classes with fewer than two training rows, or without rows in another split."""
    if "train" not in rows:
        return []
    counts = {split: np.bincount(corpus.labels[its_rows], minlength=len(labels)) for split, its_rows in rows.items()}
    is_few = np.any([count < (2 if split == "train" else 1) for split, count in counts.items()], axis=0)
    few = [
        f"{labels[i]} ({', '.join(f'{count[i]} {split}' for split, count in counts.items())})"
        for i in np.flatnonzero(is_few).tolist()
    ]
    more = f" and {len(few) - MAX_SHOWN:,} more" if len(few) > MAX_SHOWN else ""
    message = f"warning: classes with too few rows to learn or to evaluate: {', '.join(few[:MAX_SHOWN])}{more}."
    return [message] if few else []


def odd_labels(labels: Sequence[str]) -> list[str]:
    """Returns warnings about classes that look alike, and about labels that may be several in one text."""
    forms = [_plain(label) for label in labels]
    counts = Counter(forms)
    alike = [repr(label) for label, form in zip(labels, forms, strict=True) if counts[form] > 1][:MAX_SHOWN]
    message = f"warning: classes that differ in case, Unicode form or invisible characters alone: {', '.join(alike)}."
    found = [message] if alike else []
    for sign in "|;,":
        if len(labels) > 2 and 2 * sum(sign in label.strip(sign) for label in labels) > len(labels):
            found.append(f"warning: most classes hold {sign!r}: a row has one label here, and each is a class.")
    return found


def _plain(label: str) -> str:
    """Returns a label without case, without variants of characters and without characters that are not seen."""
    visible = "".join(character for character in label if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", visible).casefold()


def repeats(ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Returns the mask of rows whose text occurs in an earlier row."""
    repeated = np.ones(len(ids), dtype=bool)
    repeated[np.unique(ids, return_index=True)[1]] = False
    return repeated


def draw(labels: Rows, total: int, seed: int) -> Mask:
    """Returns the mask of a random, stratified selection of `total` rows.

    For the same rows and seed, a smaller selection of a class is a subset of a larger selection.
    """
    random = np.random.default_rng(seed)
    classes, sizes = np.unique(labels, return_counts=True)
    drawn = np.zeros(len(labels), dtype=bool)
    for label, share in zip(classes, apportion(sizes, total), strict=True):
        drawn[random.permutation(np.flatnonzero(labels == label))[:share]] = True
    return drawn


def draw_groups(labels: Rows, groups: Rows, total: int, seed: int) -> Mask:
    """Returns the mask of a random selection of whole groups with about `total` rows, stratified by class.

    First, each group is drawn, in random order, unless a class would exceed its share of `total`. Then, while a group
    brings the number of rows nearer to `total`, the group is drawn that brings the classes nearest to their shares
    (squared distance). Rows without a group are drawn one by one.

    The last rows of a class always stay for training. Otherwise, the number of rows differs from `total` by less than
    the size of the largest group.

    Args:
        labels: Class of each row.
        groups: Group of each row.
        total: Number of rows wanted.
        seed: Seed of the selection.
    """
    in_group = groups != NO_GROUP
    share = round(total * np.count_nonzero(in_group) / max(1, len(labels)))
    drawn = np.zeros(len(labels), dtype=bool)
    drawn[in_group] = _draw_whole(labels[in_group], groups[in_group], share, seed)
    drawn[~in_group] = draw(labels[~in_group], max(0, total - int(drawn.sum())), seed)
    for label in np.setdiff1d(labels, labels[~drawn]):
        drawn[np.flatnonzero((labels == label) & ~in_group)[0]] = False
    return drawn


def _draw_whole(labels: Rows, groups: Rows, total: int, seed: int) -> Mask:
    """Draws whole groups from rows that all have a group."""
    class_N = np.unique(labels, return_inverse=True)[1]
    names, group_N = np.unique(groups, return_inverse=True)
    start_G, class_P, rows_P = _classes_of_groups(group_N, class_N)
    group_P = np.repeat(np.arange(len(names)), np.diff(start_G))
    rows_G, most_C = np.bincount(group_N), np.bincount(class_N) - 1
    shares_C = apportion(most_C + 1, total)
    limit_C = np.minimum(shares_C, most_C)
    drawn_C, drawn_G = np.zeros_like(most_C), np.zeros(len(names), dtype=bool)
    for group in np.random.default_rng(seed).permutation(len(names)):
        own = slice(*start_G[group : group + 2])
        if (drawn_C[class_P[own]] + rows_P[own] <= limit_C[class_P[own]]).all():
            drawn_C[class_P[own]] += rows_P[own]
            drawn_G[group] = True
    while (missing := int((shares_C - drawn_C).sum())) > 0:
        is_nearer = (rows_G < 2 * missing) | (not drawn_G.any())
        too_many_G = np.bincount(group_P, drawn_C[class_P] + rows_P > most_C[class_P], len(names))
        left = np.flatnonzero(~drawn_G & is_nearer & (too_many_G == 0))
        if not len(left):
            break
        # The squared distance to what is missing of each class, but for what all groups have in common.
        distance_G = np.bincount(group_P, rows_P * (rows_P - 2 * (shares_C - drawn_C)[class_P]), len(names))
        group = left[np.argmin(distance_G[left])]
        own = slice(*start_G[group : group + 2])
        drawn_C[class_P[own]] += rows_P[own]
        drawn_G[group] = True
    mask: Mask = drawn_G[group_N]
    return mask
