"""A few thousand inputs of the fuzzers; ``make fuzz`` has as many as one likes."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import mixfree
from tests.fuzz import states
from tests.fuzz.mutate import as_text, changed
from tests.fuzz.parent import Tally, found, run
from tests.fuzz.targets import names

PARTS = {  # by room: inputs of each target
    "optimizers": 30,
    "linear": 20,
    "estimators": 40,
    "td": 100,
    "streams": 40,
    "torch": 80,
    "model": 250,
    "data": 12,
    "command": 20,
}
NO_TORCH = "the states of mixfree.torch are fuzzed where PyTorch is installed"
TOGETHER = (("optimizers", "linear", "estimators", "td"), ("streams", "model", "data", "command"))


@pytest.mark.parametrize("rooms", [*TOGETHER, ("torch",)], ids=lambda rooms: rooms[0])
def test_changed_inputs_are_answered_or_refused_in_one_sentence(rooms):
    """A traceback, a crash, a hang, or a refusal that has changed something are none of both.

    Inputs that once went wrong are among them.
    """
    if "torch" in rooms:
        pytest.importorskip("torch", reason=NO_TORCH)
    tally = Tally()
    jobs = [[name, 7, 0, PARTS[name.partition("/")[0]]] for name in names(rooms)]
    jobs += [job for job in found() if job[0].partition("/")[0] in rooms]
    run(jobs, tally, keeps=False)
    assert tally.wrong == []
    assert tally.inputs == sum(count for *_, count in jobs)
    assert tally.outcomes["taken"] and tally.outcomes["refused"]


def test_changes_of_changes_go_on():
    """An array that had become one of texts such as "-1." ended the whole run."""
    for number in range(3000):
        rng = np.random.default_rng(number)
        assert as_text(changed([np.array(["-1.", "x"]), np.zeros(2)], rng))


def test_every_class_that_loads_a_state_is_fuzzed():
    """A new one would be trusted with whatever a file holds."""
    pytest.importorskip("torch", reason=NO_TORCH)
    subjects = [subject for room in states.ROOMS for subject in room().values()]
    made = {each.__name__ for s in subjects for each in inspect.getmro(type(s.new()))}
    made |= {"LstdTD", "StepTD"}  # inside of TDLearner
    made |= {"LinearLearner", "Engine"}  # protocols
    for path in Path(mixfree.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                assert node.name in made or not own & {"load_state_dict", "from_state"}, node.name
