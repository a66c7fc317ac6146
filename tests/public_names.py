"""The public names and their signatures as text: ``python -m tests.public_names --write``."""

import functools
import importlib
import inspect
import re
import sys
from pathlib import Path

FILE = Path(__file__).with_name("public_names.txt")
MODULES = (
    "mixfree",
    "mixfree.chains",
    "mixfree.domains",
    "mixfree.gradients",
    "mixfree.linear",
    "mixfree.optax",
    "mixfree.outputs",
    "mixfree.reproduce",
    "mixfree.sklearn",
    "mixfree.steps",
    "mixfree.streams",
    "mixfree.td",
    "mixfree.td.features",
    "mixfree.torch",
)


def signature(callable_):
    """Parameters with their defaults; annotations are the type checker's, and no two Pythons
    print them alike."""
    try:
        found = inspect.signature(callable_)
    except ValueError:  # of a class written in C
        return "(...)"
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def members(class_, described):
    """Properties and methods of a class that this project defines, with their signatures.

    Those of a base class that is described elsewhere are left out.
    """
    for name in sorted(dir(class_)):
        owner = next((base for base in class_.__mro__ if name in vars(base)), class_)
        inherited = owner is not class_ and owner in described
        if name.startswith("_") or inherited or not owner.__module__.startswith("mixfree"):
            continue
        member = vars(owner)[name]
        if isinstance(member, property | functools.cached_property):
            yield f"{name}: property"
        elif isinstance(member, classmethod | staticmethod):
            yield f"{name}{signature(getattr(class_, name))}: {type(member).__name__}"
        elif inspect.isfunction(member):
            yield f"{name}{signature(member)}"


def text():
    """The public names of all modules; what several modules offer is described once."""
    described, lines = {}, []
    public = [
        (module, name, getattr(importlib.import_module(module), name))
        for module in MODULES
        for name in sorted(importlib.import_module(module).__all__)
    ]
    classes = {value for _, _, value in public if inspect.isclass(value)}
    for module in MODULES:
        lines.append(module)
        for _, name, value in (each for each in public if each[0] == module):
            if not callable(value):
                lines.append(f"    {name}: {type(value).__name__}")
            elif value in described:
                lines.append(f"    {name} = {described[value]}")
            elif inspect.isclass(value):
                bases = [base.__name__ for base in value.__bases__ if base in classes]
                of = f" of {', '.join(bases)}" if bases else ""
                lines.append(f"    class {name}{signature(value)}{of}")
                lines += (f"        {member}" for member in members(value, classes))
            else:
                lines.append(f"    {name}{signature(value)}")
            if callable(value):
                described.setdefault(value, f"{module}.{name}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text(), encoding="utf-8", newline="\n")
    else:
        print(text(), end="")
