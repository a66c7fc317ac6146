"""``make fuzz``: inputs without end, or as many as are asked for, going on where it stopped."""

import argparse
import json
import time
from fnmatch import fnmatch
from pathlib import Path

from mixfree.base.progress import progress_bar
from tests.fuzz.parent import FOUND, Tally, run
from tests.fuzz.targets import names

PART = 250  # inputs of a job, so that a run that is stopped has lost few
SLOW = {  # inputs relative to those of other targets, by what one of them costs
    "command": 0.1,
    "model": 2.0,
    "data/csv": 0.5,
    "data/tsv": 0.3,
    "data/parquet": 0.5,
    "linear/exact-softmax": 0.1,
    "estimators/classifier": 0.2,
}


def main():
    about = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    about.add_argument("--inputs", type=int, default=1_000_000, help="inputs in all")
    about.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    about.add_argument("--seed", type=int, default=0, help="another seed has other inputs")
    about.add_argument("--target", action="append", help="only such, as in 'data/*'")
    about.add_argument("--bounds", action="store_true", help="check bounds in compiled code")
    about.add_argument("--state", type=Path, default=Path("build/fuzz.json"), help="how far it is")
    given = about.parse_args()
    wanted = [n for n in names() if any(fnmatch(n, t) for t in given.target or ["*"])]
    known = json.loads(given.state.read_text()) if given.state.exists() else {}
    mode = f"{given.seed}{' with bounds' if given.bounds else ''}"
    before = known.setdefault(mode, {"done": {}, "outcomes": {}, "wrong": []})
    tally = Tally()
    tally.done.update(before["done"])
    tally.outcomes.update(before["outcomes"])
    tally.wrong = [tuple(each) for each in before["wrong"]]
    environment = {}
    if given.bounds:  # with machine code of its own: Numba's cache does not tell the two apart
        own = (given.state.parent / "fuzz-bounds").absolute()
        environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(own)}
    stop = time.time() + 60.0 * given.minutes

    def save(tally):
        known[mode] = {"done": tally.done, "outcomes": tally.outcomes, "wrong": tally.wrong}
        given.state.parent.mkdir(parents=True, exist_ok=True)
        given.state.write_text(json.dumps(known))

    with progress_bar("fuzzing", given.inputs) as bar:

        def show(tally):
            save(tally)
            bar(tally.inputs, f"fuzzing, {len(tally.wrong)} wrong")

        while tally.inputs < given.inputs and time.time() < stop:
            jobs = [
                [n, given.seed, tally.done[n], max(1, int(PART * SLOW.get(n, 1.0)))] for n in wanted
            ]
            run(jobs, tally, stop, show, environment)
    save(tally)
    for name, _, number, why in tally.wrong[:40]:
        print(f"wrong      {name} {number}: {why}")
    counts = ", ".join(f"{count:,} {what}" for what, count in tally.outcomes.most_common())
    print(
        f"fuzz       seed {mode}: {tally.inputs:,} inputs: {counts}; {len(tally.wrong)} went wrong"
    )
    if tally.wrong:
        raise SystemExit(f"what went wrong is kept in {FOUND}")


if __name__ == "__main__":
    main()
