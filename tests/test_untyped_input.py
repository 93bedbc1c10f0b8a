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
    "one text's ids": "OptionError: BridgeModel: tokens is a Tensor [4] of torch.int64; expected a",
    "ids as a list": "OptionError: BridgeModel: tokens=[[1, 2]] is a list; expected a tensor [batc",
    "ids of floats": "OptionError: BridgeModel: tokens is a Tensor [2, 4] of torch.float32; expect",
    "another batch's mask": "OptionError: BridgeModel: attention_mask is a Tensor [1, 4] of torch.",
    "a mask of floats": "OptionError: BridgeModel.encode: attention_mask is a Tensor [2, 4] of tor",
    "leak of a list": "OptionError: attention_leak: tokens=[1, 2] is a list; expected a tensor [ba",
    "leak of one text": "OptionError: attention_leak: tokens is a Tensor [4] of torch.int64; expec",
    "keys of bytes": "OptionError: attention_leak: keys=b'cat' is a bytes; expected an integer or ",
    "half a draw": "OptionError: attention_leak: draws=1.5 is a float; expected an integer",
    "examples a name": "OptionError: cap_curve: examples='mini-idm' is a str; expected a sequence ",
    "examples a task": "OptionError: cap_curve: examples=Task(name='mini-idm', template='{} is cal",
    "examples a dict": "OptionError: cap_curve: examples={'prompt': 'x', 'answer': 'y'} is a dict;",
    "a row of None": "DataFormatError: example 1 is None",
    "a row of text": "DataFormatError: example 1 is 'junk'",
    "a prompt of bytes": "OptionError: Example: prompt=b'x' is a bytes; expected a string",
    "a model's name": "OptionError: cap_curve: model='mini-idm' is a str; expected a model from lo",
    "layers of text": "OptionError: cap_curve: layers[0]='0' is a str; expected a number",
    "layers a text": "OptionError: cap_curve: layers='01' is a str; expected a sequence (each",
    "layers a mapping": "OptionError: cap_curve: layers={0: 1} is a dict; expected a sequence (eac",
    "layers of None": "OptionError: cap_curve: layers[0]=None; expected a number",
    "half a batch": "OptionError: cap_curve: batch_size=2.5 is a float; expected an integer or Non",
    "half a seed": "OptionError: cap_curve: seed=1.5 is a float; expected an integer",
    "labels a text": "OptionError: cap_curve: labels='NP' is a str; expected a set (each item a st",
    "pooling a generator": "OptionError: cap_curve: pooling=",
    "an unknown task": "OptionError: task 'no-such'",
    "an unknown dtype": "OptionError: load_model: dtype=8 is an int; expected a string or a dtype ",
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of(SCRIPT)


@pytest.mark.parametrize("name", EXPECTED)
def test_it_is_refused_by_name(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name].startswith(EXPECTED[name])
