"""Inputs that follow the coverage of the code that reads them, by atheris (extra ``fuzz``).

``python -m tests.fuzz.guided model -max_total_time=600``; ``data/csv`` and ``data/jsonl`` are the
other targets, and what follows is for libFuzzer. What goes wrong is kept as by ``make fuzz``.
"""

import sys
import tempfile
import warnings
import zlib
from pathlib import Path


def main():
    import atheris

    with atheris.instrument_imports(include=["mixfree.streams", "mixfree.base"]):
        from tests.fuzz.parent import FOUND
        from tests.fuzz.targets import generator, target

    name, *options = sys.argv[1:]
    one = target(name)
    warnings.simplefilter("ignore")

    def run(data):
        try:
            one.run(data)
        except BaseException:
            ending = f"guided-{zlib.crc32(data):08x}.{one.ending}"
            (FOUND / f"{name.replace('/', '--')}--{ending}").write_bytes(data)
            raise

    def change(data, most, seed):
        """Half of the inputs are made by the target: a checksum is not found by chance."""
        made = one.input(generator(name, seed, 0)) if seed % 2 else atheris.Mutate(data, most)
        return made[:most]

    with tempfile.TemporaryDirectory() as folder:
        for number in range(64):
            (Path(folder) / str(number)).write_bytes(one.input(generator(name, 0, number)))
        atheris.Setup([sys.argv[0], *options, folder], run, custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
