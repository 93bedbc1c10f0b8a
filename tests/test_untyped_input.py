"""What a user may pass who runs no type checker: refused with a typed error, not a traceback.

In a process of its own, because in the tests beartype would be there first.
"""

from __future__ import annotations

import pytest

from tests.untyped import outcomes_of

SCRIPT = """
import interp_compose as ic
model = ic.load_model("mini-base", device="cpu")
row = ic.load_task("mini-idm", model).test[0]
calls = {
    "examples a name": lambda: ic.cap_curve(model, "mini-idm"),
    "examples a task": lambda: ic.cap_curve(model, ic.load_task("mini-idm", model)),
    "examples a dict": lambda: ic.cap_curve(model, {"prompt": "x", "answer": "y"}),
    "a row of None": lambda: ic.cap_curve(model, [row, None]),
    "a row of text": lambda: ic.cap_curve(model, [row, "junk"]),
    "a prompt of bytes": lambda: ic.cap_curve(model, [ic.Example(b"x", "y")]),
    "a model's name": lambda: ic.cap_curve("mini-idm", [row]),
    "layers of text": lambda: ic.cap_curve(model, [row], layers=["0"]),
    "layers a text": lambda: ic.cap_curve(model, [row], layers="01"),
    "layers a number": lambda: ic.cap_curve(model, [row], layers=0),
    "layers of None": lambda: ic.cap_curve(model, [row], layers=[None]),
    "half a batch": lambda: ic.cap_curve(model, [row], batch_size=2.5),
    "half a seed": lambda: ic.cap_curve(model, [row], seed=1.5),
    "labels a text": lambda: ic.cap_curve(model, [row], unit="phrase", labels="NP"),
    "pooling a generator": lambda: ic.cap_curve(model, [row], pooling=(p for p in ["mean"])),
    "an unknown task": lambda: ic.load_task("no-such", model),
    "an unknown dtype": lambda: ic.load_model("mini-base", dtype=8),
}
"""

EXPECTED = {
    "examples a name": "InputError: examples are a str",
    "examples a task": "InputError: examples are a Task; expected a sequence, such as task.test",
    "examples a dict": "InputError: examples are a dict",
    "a row of None": "DataFormatError: example 1 is None",
    "a row of text": "DataFormatError: example 1 is 'junk'",
    "a prompt of bytes": "DataFormatError: example 0 has b'x' as its prompt",
    "a model's name": "OptionError: the model is a str",
    "layers of text": "LayerError: layer '0' is a str",
    "layers a text": "LayerError: layers='01'",
    "layers a number": "LayerError: layers=0",
    "layers of None": "LayerError: layer None is a NoneType",
    "half a batch": "OptionError: batch_size=2.5",
    "half a seed": "OptionError: seed=1.5",
    "labels a text": "OptionError: labels='NP'",
    "pooling a generator": "OptionError: pooling=",
    "an unknown task": "OptionError: task 'no-such'",
    "an unknown dtype": "OptionError: unknown dtype 8",
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of(SCRIPT)


@pytest.mark.parametrize("name", EXPECTED)
def test_it_is_refused_by_name(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name].startswith(EXPECTED[name])
