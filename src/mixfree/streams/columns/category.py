"""Columns of texts: one raw feature per text, as it appears."""

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.streams.columns.column import GAP, MIN_ROWS, Column, Counts, Feature, Raw, Use
from mixfree.streams.read.values import decoded, texts_in

MAX_TEXTS = 256  # most different texts of a column whose texts have features of their own
MAX_HASHED = 1 << 16  # most hashed features per column
MAX_CHARACTERS = 200  # characters by which texts are told apart
MISSING, UNKNOWN = -1, -2  # entries


@dataclass(eq=False)
class Category(Column):
    """A text: 1 in the feature of its text, or of its hash if there are too many texts."""

    most: int = MAX_TEXTS  # different texts, beyond which the column is left out, or hashed
    hashed: int = 0  # number of features into which too many texts are hashed; 0 for none
    over: bool = field(default=False, init=False, repr=False)  # whether there were too many

    kind = "category"

    def check(self, what: str) -> None:
        """There are not more texts than there may be."""
        most = max(self.most, check_whole(self.hashed, "hashed", least=0, most=MAX_HASHED))
        check_whole(len(self.places), "number of texts", least=0, most=most + 1)

    def gaps(self, entries: Array) -> Array | None:
        """Return which texts are missing, None if there are none."""
        found = entries == MISSING
        return found if found.any() else None

    def values(self, batch: Any) -> Any:
        """Return the values of a batch, as a dictionary if they are stored as one."""
        return batch.column(self.name)

    def parse(self, values: Any, grow: bool) -> Array:
        """Return the index of each text among the raw features; there may be too many texts now."""
        different = values.dictionary_encode()
        keys = _keys(different)
        if grow and not self.over and any(key not in self.places for key in keys if key):
            different = decoded(values).dictionary_encode()  # by appearance, without unused ones
            keys = _keys(different)
            self.add([key for key in keys if key])
        # A text may have occurred only in rows that were left out.
        code = {key: n for n, (key, at) in enumerate(self.places.items()) if grow or at >= 0}
        at = [code.get(self.moved(key) or "", UNKNOWN) if key else MISSING for key in keys]
        which = different.indices.fill_null(len(at)).to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*at, MISSING]).take(which))

    def add(self, keys: list[str], too_many: bool = False) -> None:
        """Add texts; if there are too many, hash all of them, or leave them out."""
        places = {**dict.fromkeys(keys, -1), **self.places}
        if too_many or len(places.keys() - {GAP}) > self.most:
            self.over = True
            gap = {GAP: -1} if GAP in places and self.hashed else {}
            self.places = {f"#{code}": -1 for code in range(self.hashed)} | gap
        else:
            self.places |= {key: -1 for key in keys if key not in self.places}

    def moved(self, key: str) -> str | None:
        """Return the raw feature that a raw feature of before is part of now."""
        if not self.over or key in self.places:
            return key
        if not (self.hashed and key.startswith("=")):
            return None
        text = key[1 : MAX_CHARACTERS + 1].encode("utf-8", "surrogatepass")
        return f"#{zlib.crc32(text) % self.hashed}"

    def raw(self, entries: Array) -> Raw:
        """Return the indicators of texts."""
        return Raw({}, [([*self.places], entries)])

    def use(self, counts: Counts, rows: int, calendar: str) -> Use:
        """Use texts that are not rare; the most frequent one is the reference."""
        if self.over and not self.hashed:
            why = f"more than {self.most} different texts; `hash_columns=16` hashes them"
            return Use([], [], why)
        found = {key: n for key in self.places if key != GAP and (n := counts[key]) > 0}
        known = sum(found.values())
        if not (self.forced or self.over) and 2 * len(found) > known:
            example = min(found, key=lambda key: (len(key), key))[1:40]
            return Use([], [], f"almost every row has a different text, such as {example!r}")
        common = sorted(key for key, count in found.items() if count >= MIN_ROWS)
        rare = sorted(found.keys() - common)
        reference = max(common, key=lambda key: (found[key], key), default="")
        features = [Feature(f"{self.name}{key}", {key: 1.0}) for key in common if key != reference]
        filled, note = [GAP, *rare], ""
        if len(rare) >= MIN_ROWS and common:
            filled = [GAP]
            features.append(Feature(f"{self.name}: other", dict.fromkeys(rare, 1.0)))
            note = f"{self.name!r}: {len(rare):,} texts of a single row each are 'other'"
        if self.over:
            note = f"{self.name!r} has more than {self.most} texts, hashed into {self.hashed}"
        features += self.gap_feature(counts, rows)
        why = "" if features else "constant" if known else "empty"
        return Use(features, filled, why, note)


def _keys(different: Any) -> list[str]:
    """Return the raw features of the texts of a dictionary, empty where one is missing."""
    texts = texts_in(different.dictionary).to_pylist()
    return ["" if text is None else f"={text[:MAX_CHARACTERS]}" for text in texts]
