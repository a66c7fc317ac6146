"""What is fuzzed: for each, how an input is made, and what is done with it.

An input is bytes that depend on the target's name, the seed and the input's number alone. What
may become of one: the right answer, or a ValueError (for a command, exit code 2) of one sentence,
after which nothing has changed.
"""

import contextlib
import functools
import gzip
import hashlib
import io
import json
import os
import struct
import tempfile
import zlib

import numpy as np

from tests.fuzz import states
from tests.fuzz.mutate import anything, as_text, changed, changed_bytes, from_text, pick

SECONDS = 20  # of a processor that one input may take


class Wrong(Exception):
    """Something happened to an input that must not happen."""


def generator(name, seed, number):
    """The random numbers of one input."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed, number])


def one_sentence(error):
    """Wrong unless an error's text is one line."""
    if not str(error).strip() or "\n" in str(error).strip():
        raise Wrong(f"not one sentence: {error!r}")


class State:
    """States of one kind of object."""

    ending = "json"

    def __init__(self, subject):
        self.subject = subject
        self._held = None

    @functools.cached_property
    def corpus(self):
        fresh, used = self.subject.new(), self.subject.new()
        self.subject.use(used)
        return [self.subject.state(fresh), self.subject.state(used), self.subject.state(used)]

    def input(self, rng):
        return as_text(changed(pick(rng, self.corpus), rng))

    def run(self, data):
        if self._held is None:
            it = self.subject.new()
            self.subject.use(it)
            self._held = it, as_text(self.subject.state(it))
        it, before = self._held
        try:
            it = self.subject.load(it, from_text(data))
        except ValueError as error:
            one_sentence(error)
            if as_text(self.subject.state(self._held[0])) != before:
                self._held = None
                raise Wrong("a refused state has changed something") from error
            return "refused"
        self._held = None
        try:
            self.subject.use(it)
            as_text(self.subject.state(it))
        except ValueError as error:
            one_sentence(error)
            return "refused later"
        return "taken"


class ModelFile:
    """Model files with a right checksum over a wrong structure, and others."""

    ending = "mixfree"

    @functools.cached_property
    def corpus(self):
        from mixfree.streams import model_file

        found = []
        for name in ("fit", "fit-steps"):
            subject = states.streams()[name]
            it = subject.new()
            subject.use(it)
            with tempfile.TemporaryDirectory() as folder:
                model_file.save(f"{folder}/m", it.state_dict())
                with open(f"{folder}/m", "rb") as file:
                    data = file.read()
            length = struct.unpack_from("<Q", data, 12)[0]
            found.append(
                (data, data[:12], json.loads(data[20 : 20 + length]), data[20 + length : -32])
            )
        return found

    def input(self, rng):
        data, begin, header, blob = pick(rng, self.corpus)
        kind = rng.integers(8)
        if kind == 0:
            return changed_bytes(data, rng)
        if kind < 5:
            header = changed(header, rng)
        text = json.dumps(header, default=lambda value: np.asarray(value).tolist().__str__())
        if kind == 5:
            text = self._odd(text, rng)
        if kind == 6:
            blob = changed_bytes(blob, rng, (b"\0" * 8, b"\xff" * 8, struct.pack("<d", 1e300)))
        packed = text.encode()
        if kind == 7:
            packed = changed_bytes(
                packed, rng, (b"[", b"{", b'"$array": 0,', b"-1", b"NaN", b"1e999")
            )
        body = begin + struct.pack("<Q", len(packed) + int(rng.integers(20) == 0)) + packed + blob
        return body + hashlib.sha256(body).digest()

    @staticmethod
    def _odd(text, rng):
        at = text.index('"content": {') + len('"content": {')
        deep = "[" * 5000 + "]" * 5000
        odd = (
            '"kind": 1, ',
            f'"x": {deep}, ',
            '"x": NaN, ',
            '"x": 1e999, ',
            '"$x": 1, ',
            '"$array": 0, ',
            '"x": {"$float": "7"}, ',
            '"x": {"$array": true}, ',
            f'"x": {"9" * 5000}, ',
        )
        return text[:at] + pick(rng, odd) + text[at:]

    def run(self, data):
        from mixfree.streams import StreamFit
        from mixfree.streams.facts import Facts
        from mixfree.streams.report import lines

        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/m.mixfree"
            with open(path, "wb") as file:
                file.write(data)
            try:
                fit = StreamFit.load(path)
            except ValueError as error:
                one_sentence(error)
                return "refused"
        try:
            list(lines(Facts(fit)))
            states.streams()["fit"].use(fit)
        except ValueError as error:
            one_sentence(error)
            return "refused later"
        return "taken"


WORDS = {
    "csv": (
        b",",
        b"\n",
        b'"',
        b"\r",
        b";",
        b"\t",
        b"nan",
        b"inf",
        b"1e999",
        b"-",
        b"",
        b"\xff",
        b"\0",
        b"2024-01-01",
        b"x" * 300,
        b"true",
        b"999999999999999999999",
        b"\xef\xbb\xbf",
        b",,,",
        b"\n\n",
    ),
    "jsonl": (
        b"{",
        b"}",
        b'{"a": 1}',
        b"null",
        b"[1, 2]",
        b'{"a": {"b": [',
        b'"',
        b"\n",
        b"1e999",
        b"NaN",
        b"[" * 3000,
        b'{"a":' * 2000,
        b"\\ud800",
        b"\xff",
        b"true",
        b'"x"',
        b",",
    ),
}


class Data:
    """Files of one format, fitted, and predicted by what was fitted."""

    def __init__(self, ending):
        self.ending = ending
        self._words = WORDS.get(ending.partition(".")[0].replace("tsv", "csv"), WORDS["csv"])

    @functools.cached_property
    def corpus(self):
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet

        x, y = states.data(60)
        when = np.datetime64("2024-01-01", "s") + np.arange(60) * np.timedelta64(1, "h")
        texts = pyarrow.array(np.array(["sun", "rain", "snow"])[np.arange(60) % 3])
        table = pyarrow.table(
            {"a": x[:, 0].round(3), "sky": texts, "when": when, "on": y > 0, "y": y}
        )
        found = []
        for data in (table, table.select(["a", "sky", "y"]).slice(0, 12)):
            out = io.BytesIO()
            kind = self.ending.partition(".")[0]
            if kind in ("csv", "tsv"):
                options = pyarrow.csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
                pyarrow.csv.write_csv(data, out, options)
            elif kind == "jsonl":
                rows = ({**row, "when": str(row.get("when"))} for row in data.to_pylist())
                out.write("".join(json.dumps(row) + "\n" for row in rows).encode())
            elif kind == "parquet":
                pyarrow.parquet.write_table(data, out, row_group_size=25)
            else:
                coded = data.set_column(1, "sky", data["sky"].combine_chunks().dictionary_encode())
                new = pyarrow.ipc.new_stream if kind == "ipc" else pyarrow.ipc.new_file
                with new(out, coded.schema) as writer:
                    writer.write_table(coded, 25)
            found.append(out.getvalue())
        return found

    def input(self, rng):
        data = changed_bytes(pick(rng, self.corpus), rng, self._words)
        if not self.ending.endswith("gz"):
            return data
        packed = gzip.compress(data, 1)
        return changed_bytes(packed, rng) if rng.integers(2) else packed

    def run(self, data):
        from mixfree.streams import FitPlan, Source, StreamFit, find_files, write_predictions

        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/d.{self.ending}"
            with open(path, "wb") as file:
                file.write(data)
            try:
                files = find_files([path])
                source = Source(files)
                fit = StreamFit.begin(source, FitPlan("y", "squared", missing="skip"))
                fit.run(source.pieces())
                fit.save(f"{folder}/m")
                write_predictions(StreamFit.load(f"{folder}/m"), Source(files), f"{folder}/p.csv")
            except (ValueError, OSError) as error:  # damaged compression is an OSError
                one_sentence(error)
                return "refused"
        return "taken"


COMMANDS = (
    "fit d.csv --target y --model m.mixfree -q",
    "fit d.csv --target y --model m.mixfree -q --resume",
    "fit d.csv --target y --method mag --step-scale 2 --output last -q --model n.mixfree",
    "fit d.csv --target y --features a,sky --missing mean --l2 0.5 --json --dry-run",
    "fit d.csv --target y --categories sky=sun,rain --time cyclic --hash 4 --dry-run",
    "fit d.csv --target sky --classes sun,rain,snow -q --model n.mixfree",
    "predict d.csv --model m.mixfree -o p.csv --keep a --interval 0.9",
    "inspect m.mixfree --json",
    "diagnose d.csv --target y",
    "chain d.csv --estimate --column sky",
    "methods",
    "--version",
)
ARGUMENTS = (
    "0",
    "-1",
    "1e999",
    "nan",
    "",
    "x",
    "y",
    "a",
    "d.csv",
    "m.mixfree",
    "e.csv",
    ".",
    "*",
    "-",
    "--",
    "--model",
    "--target",
    "--json",
    "--resume",
    "--bogus",
    "a=b",
    "a=",
    "=b",
    "\x1b[31m",
    "[/x]",
    "é",
    "\0",
    "'",
    '"',
    'a,"b',
    "99999999999999999999",
    "--workers",
    "1",
    "{}",
)


class Command:
    """Command lines, in a folder with data and a model."""

    ending = "args"

    def input(self, rng):
        words = pick(rng, COMMANDS).split()
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(words)))
            kind = rng.integers(4)
            if kind == 0:
                words[at] = pick(rng, ARGUMENTS)
            elif kind == 1:
                words.insert(at + 1, pick(rng, ARGUMENTS))
            elif kind == 2:
                del words[at]
                words = words or ["--version"]
            else:
                words[at] += str(anything(rng))[:20]
        return json.dumps([word.replace("/", "|") for word in words]).encode()

    @functools.cached_property
    def _folder(self):
        folder = tempfile.TemporaryDirectory()
        self._texts = {"d.csv": Data("csv").corpus[0], "e.csv": b""}
        return folder

    def run(self, data):
        from mixfree.cli import main

        words, here, folder = json.loads(data), os.getcwd(), self._folder.name
        for name in os.listdir(folder):
            if name not in ("m.mixfree", *self._texts):
                with contextlib.suppress(IsADirectoryError):
                    os.unlink(f"{folder}/{name}")
        for name, text in self._texts.items():
            with open(f"{folder}/{name}", "wb") as file:
                file.write(text)
        out, err = io.StringIO(), io.StringIO()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                if not os.path.exists("m.mixfree"):
                    with contextlib.suppress(SystemExit):
                        main(COMMANDS[0].split())
                main(words)
            code = 0
        except SystemExit as ended:
            code = ended.code
        finally:
            os.chdir(here)
        said = err.getvalue()
        if code in (0, None):
            return "taken"
        if "Traceback" in said or not said.strip():
            raise Wrong(f"exit code {code} with {said!r}")
        if not said.startswith("Usage:") and said.count("\n") > 1:
            raise Wrong(f"not one sentence: {said!r}")
        return "refused"


ROOMS = (*(room.__name__ for room in states.ROOMS), "model", "data", "command")
ENDINGS = ("csv", "tsv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "arrow", "ipc")


@functools.cache
def target(name):
    """The target of a name, such as ``state/exact``, ``data/csv``, ``model`` or ``command``."""
    room, _, which = name.partition("/")
    if room == "model":
        return ModelFile()
    if room == "command":
        return Command()
    return Data(which) if room == "data" else State(getattr(states, room)()[which])


def input_of(name, seed, number):
    """An input: what the generator makes of it, or a file that the seed names."""
    if isinstance(seed, str):
        with open(seed, "rb") as file:
            return file.read()
    return target(name).input(generator(name, seed, number))


def names(rooms=ROOMS):
    """Every target, or those of some rooms; what others need is not imported."""
    made = {
        room.__name__: [f"{room.__name__}/{name}" for name in room()]
        for room in states.ROOMS
        if room.__name__ in rooms
    }
    made["data"] = [f"data/{ending}" for ending in ENDINGS]
    return [name for room in rooms for name in made.get(room, [room])]
