"""What a user may pass who runs no type checker: refused with a typed error, not a traceback.

In a process of its own, because in the tests beartype would be there first.
"""

from __future__ import annotations

import pytest

from tests.untyped import outcomes_of

SCRIPT = """
import torch
import interp_compose as ic
model = ic.load_model("mini-base", device="cpu")
row = ic.load_task("mini-idm", model).test[0]
ids = torch.ones((2, 4), dtype=torch.long)
calls = {
    "one text's ids": lambda: model(ids[0]),
    "ids as a list": lambda: model([[1, 2]]),
    "ids of floats": lambda: model(ids.float()),
    "another batch's mask": lambda: model(ids, attention_mask=ids[:1]),
    "a mask of floats": lambda: model.encode(ids, attention_mask=ids.float()),
    "leak of a list": lambda: ic.attention_leak(model, [1, 2], keys=0),
    "leak of one text": lambda: ic.attention_leak(model, ids[0], keys=0),
    "keys of bytes": lambda: ic.attention_leak(model, ids, keys=b"cat"),
    "half a draw": lambda: ic.attention_leak(model, ids, keys=0, draws=1.5),
    "examples a name": lambda: ic.cap_curve(model, "mini-idm"),
    "examples a task": lambda: ic.cap_curve(model, ic.load_task("mini-idm", model)),
    "examples a dict": lambda: ic.cap_curve(model, {"prompt": "x", "answer": "y"}),
    "a row of None": lambda: ic.cap_curve(model, [row, None]),
    "a row of text": lambda: ic.cap_curve(model, [row, "junk"]),
    "a prompt of bytes": lambda: ic.cap_curve(model, [ic.Example(b"x", "y")]),
    "a model's name": lambda: ic.cap_curve("mini-idm", [row]),
    "layers of text": lambda: ic.cap_curve(model, [row], layers=["0"]),
    "layers a text": lambda: ic.cap_curve(model, [row], layers="01"),
    "layers a mapping": lambda: ic.cap_curve(model, [row], layers={0: 1}),
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
    "one text's ids": "InputError: tokens are [4] of torch.int64",
    "ids as a list": "InputError: tokens are a list",
    "ids of floats": "InputError: tokens are [2, 4] of torch.float32",
    "another batch's mask": "InputError: attention_mask is [1, 4]",
    "a mask of floats": "InputError: attention_mask is [2, 4] of torch.float32",
    "leak of a list": "InputError: tokens are a list",
    "leak of one text": "InputError: tokens are [4]",
    "keys of bytes": "OptionError: keys are a bytes",
    "half a draw": "OptionError: keys=0, draws=1.5",
    "examples a name": "InputError: examples are a str",
    "examples a task": "InputError: examples are a Task; expected a sequence, such as task.test",
    "examples a dict": "InputError: examples are a dict",
    "a row of None": "DataFormatError: example 1 is None",
    "a row of text": "DataFormatError: example 1 is 'junk'",
    "a prompt of bytes": "DataFormatError: example 0 has b'x' as its prompt",
    "a model's name": "OptionError: the model is a str",
    "layers of text": "LayerError: layer '0' is a str",
    "layers a text": "LayerError: layers='01'",
    "layers a mapping": "LayerError: layers={0: 1}",
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
