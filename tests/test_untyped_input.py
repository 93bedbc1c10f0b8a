"""What a user may pass who runs no type checker: refused with a typed error, not a traceback.

In a process of its own, because in the tests beartype would be there first.
"""

from __future__ import annotations

import pytest

from tests.untyped import outcomes_of

SCRIPT = """
import numpy as np
import pandas as pd
import torch
import interp_compose as ic
model = ic.load_model("mini-base", device="cpu")
tasks = ic.load_task("mini-idm", model)
row = tasks.test[0]
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
    "labels a text": lambda: ic.cap_curve(model, [row], unit="constituent", labels="NP"),
    "pooling a generator": lambda: ic.cap_curve(model, [row], pooling=(p for p in ["mean"])),
    "an unknown task": lambda: ic.load_task("no-such", model),
    "an unknown dtype": lambda: ic.load_model("mini-base", dtype=8),
}
def inside(block):
    with block:
        pass
shape = ic.complexity.DecoderConfig(d_model=8, d_mlp=8)
decoder = ic.complexity.small_decoder(shape, init_rate=0.5, seed=0)
mask, at = torch.ones_like(ids), torch.arange(4).expand(2, 4)
resid = torch.zeros(2, 4, 8)
task = ic.complexity.AnchorTask()
short = ic.TrainConfig(max_steps=1)
calls |= {
    "ids without rows": lambda: decoder(ids[:0]),
    "ids without positions": lambda: decoder(ids[:, :0]),
    "ids of bytes": lambda: decoder(ids.to(torch.int8)),
    "more ids than the context": lambda: model(torch.ones(1, 4000).long()),
    "ids below 0": lambda: model.encode(ids - 9),
    "plain ids beyond": lambda: decoder.plain(ids + 10**6),
    "hidden states of nothing": lambda: model.plain_hidden(None),
    "another width": lambda: decoder.resume(
        resid[..., 1:], 1, attention_mask=mask, position_ids=at),
    "another dtype": lambda: decoder.run_blocks(
        resid.double(), 0, 1, attention_mask=mask, position_ids=at),
    "another batch's positions": lambda: decoder.resume(
        resid, 1, attention_mask=mask, position_ids=at[:1]),
    "a residual without rows": lambda: decoder.unembed(resid[:0]),
    "hooks nothing": lambda: inside(model.hooks(None)),
    "names a number": lambda: model.capture(ids, 3),
    "weights of nothing": lambda: decoder.load_state_dict({}),
    "pool at a text": lambda: inside(ic.pool_at(model, "0", ids)),
    "pool at a half": lambda: inside(ic.pool_at(model, 0.5, ids)),
    "pool a name": lambda: inside(ic.pool_at("x", 0, ids)),
    "groups beyond": lambda: ic.pool_groups(resid, ids, "mean", n_groups=1),
    "a width of 10**9": lambda: ic.pool_groups(resid, ids, "mean", n_groups=10**9),
    "draws of 10**9": lambda: ic.attention_leak(model, ids, keys=0, draws=10**9),
    "negatives of 10**9": lambda: ic.CarmaConfig(negatives=10**9),
    "layers of 10**9": lambda: ic.CarmaConfig().hook_names(10**9),
    "steps alone": lambda: ic.complexity.embedding_geometry(torch.randn(9, 4), steps=1),
    "permutations": lambda: ic.complexity.embedding_geometry(torch.randn(9, 4), permutations=10**9),
    "step -1": lambda: short.lr_at(-1, 9),
    "a run of none": lambda: short.lr_at(0, 0),
    "examples below 0": lambda: short.total_steps(-1),
    "a thesaurus of 3": lambda: ic.carma.ThesaurusSource(3),
    "a curve from None": lambda: ic.CapCurve.load(None),
    "curves of numbers": lambda: ic.compare_curves([3]),
    "a mapping to None": lambda: ic.compare_curves({"a": None}),
    "an array of words": lambda: ic.pool_groups(resid, ids, np.array(["mean", "max"])),
    "NA for a word": lambda: ic.cap_curve(model, [row], unit=pd.NA),
    "a frame for a switch": lambda: ic.cap_curve(model, [row], controls=pd.DataFrame({"a": [1]})),
    "an object for a switch": lambda: ic.cap_curve(model, [row], renumber=object()),
    "a tracker of 3": lambda: ic.finetune(model, tasks, config=short, track=3),
    "a run of 3": lambda: ic.complexity.phase_diagram([0.5], [0.1], "nowhere", run=3),
    "speed of 3": lambda: ic.complexity.fitting_speed([0.5], [1], [0], "nowhere", run=3),
    "runs into None": lambda: ic.complexity.phase_diagram([0.5], [0.1], None),
    "seeds of 10**9": lambda: ic.complexity.phase_diagram([0.5], [0.1], "nowhere", seeds=10**9),
    "slurm a text": lambda: ic.run_sweep("math:cos", [{}], "nowhere", slurm="x"),
    "status of None": lambda: ic.sweep_status(None),
    "a decoder of a dict": lambda: ic.complexity.small_decoder({}, init_rate=0.5, seed=0),
    "a giant": lambda: ic.complexity.DecoderConfig(d_model=10**9),
    "a long sequence": lambda: ic.complexity.AnchorTask(length=10**9),
    "many sequences": lambda: task.sample("train", 10**9, seed=0),
    "an operation that fails": lambda: ic.complexity.AnchorTask(
        anchors={"a": lambda x: 1 / 0, "b": 1}, unseen=()),
    "data to nowhere": lambda: task.sample("train", 5, seed=0).to("nowhere"),
    "a tokenizer of 3": lambda: ic.tokenize_prompts(3, ["a b"]),
    "a text for texts": lambda: ic.tokenize_prompts(model.tokenizer, "a b"),
    "a mechanism without tables": lambda: ic.complexity.Mechanism({}, {}, {}),
    "a diagram of texts": lambda: ic.complexity.PhaseDiagram(
        {}, {"runs": pd.DataFrame({"train": ["x"]})}, {}),
    "an array of one number": lambda: ic.read_pairs(np.array(3)),
    "positions beyond": lambda: model.resume(
        torch.zeros(2, 4, 128), 1, attention_mask=mask, position_ids=at + 10**6),
    "samples beyond": lambda: task.sample("train", 5, seed=0)[torch.tensor([9])],
    "a folder for rows": lambda: ic.watch(model, path="."),
    "weights of no name": lambda: ic.load_weights(model, ""),
    "no name for weights": lambda: ic.save_weights(model, ""),
    "a frame for a tagger": lambda: ic.carma.replace_synonyms(
        [row], ic.carma.ThesaurusSource({"cat": ["kitty"]}), rate=0.5, seed=0,
        tagger=pd.DataFrame()),
    "a tagger of 3": lambda: ic.carma.replace_synonyms(
        [row], ic.carma.ThesaurusSource({"cat": ["kitty"]}), rate=0.5, seed=0, tagger=3),
    "no name of a file": lambda: ic.read_examples("x" * 300 + ".jsonl"),
    "no name of a thesaurus": lambda: ic.carma.synonym_source("x" * 300 + ".json", "mini-idm"),
    "NUL in a path": lambda: ic.CapCurve.load("a\\0b"),
    "half a surrogate pair": lambda: ic.save_weights(decoder, "\\ud800"),
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
    "examples a dict": "DataFormatError: rows are a dict ('prompt', 'answer'); expected a list",
    "a row of None": "DataFormatError: example 1 is None",
    "a row of text": "DataFormatError: example 1 is 'junk'",
    "a prompt of bytes": "OptionError: Example: prompt=b'x' is a bytes; expected a string",
    "a model's name": "OptionError: cap_curve: model='mini-idm' is a str; expected a model from lo",
    "layers of text": "OptionError: cap_curve: layers[0]='0' is a str; expected a number",
    "layers a text": "OptionError: cap_curve: layers='01' is a str; expected a sequence (each",
    "layers a mapping": "OptionError: cap_curve: layers={0: 1} is a dict; expected a sequence (eac",
    "layers of None": "OptionError: cap_curve: layers[0]=None; expected a number",
    "half a batch": "OptionError: cap_curve: batch_size=2.5 is a float; expected an integer or '",
    "half a seed": "OptionError: cap_curve: seed=1.5 is a float; expected an integer",
    "labels a text": "OptionError: cap_curve: labels='NP' is a str; expected a set (each item a st",
    "pooling a generator": "OptionError: cap_curve: pooling=",
    "an unknown task": "OptionError: task 'no-such'",
    "an unknown dtype": "OptionError: load_model: dtype=8 is an int; expected a string or a dtype ",
    "ids without rows": "InputError: a tensor [0, 4] of torch.int64; expected tokens, posit",
    "ids without positions": "InputError: a tensor [2, 0] of torch.int64; expected tokens",
    "ids of bytes": "InputError: a tensor [2, 4] of torch.int8; expected tokens, positions an",
    "more ids than the context": "PromptError: 4000 tokens, and 'mini-base' reads 64; shorten them",
    "ids below 0": "InputError: token id -8: expected 0 to 907; these are not ids of this model's ",
    "plain ids beyond": "InputError: token id 1000001: expected 0 to 109; these are not ids of thi",
    "hidden states of nothing": "OptionError: BridgeModel.plain_hidden: tokens=None; expected a te",
    "another width": "InputError: resid is [2, 4, 7] of torch.float32; expected [batch pos 8] of t",
    "another dtype": "InputError: resid is [2, 4, 8] of torch.float64; expected [batch pos 8] of t",
    "another batch's positions": "OptionError: SmallDecoderModel.resume: position_ids is a Tensor ",
    "a residual without rows": "InputError: resid is [0, 4, 8] of torch.float32; expected [batch p",
    "hooks nothing": "OptionError: BridgeModel.hooks: fwd_hooks=None; expected a sequence (each it",
    "names a number": "OptionError: BridgeModel.capture: names_filter=3 is an int; expected a",
    "weights of nothing": "InputError: the weights are not those of this SmallDecoder(norm='pre'):",
    "pool at a text": "OptionError: pool_at: layer='0' is a str; expected an integer",
    "pool at a half": "OptionError: pool_at: layer=0.5 is a float; expected an integer",
    "pool a name": "OptionError: pool_at: model='x' is a str; expected a model from load_model",
    "groups beyond": "OptionError: groups up to 1 in n_groups=1: expected a width above the larges",
    "a width of 10**9": "OptionError: groups up to 1 in n_groups=1000000000: expected a width abov",
    "draws of 10**9": "OptionError: keys=0, draws=1000000000: expected the keys whose tokens are t",
    "negatives of 10**9": "OptionError: negatives=1000000000: expected 'all', or how many to draw ",
    "layers of 10**9": "LayerError: the model has n_layers=1000000000, and CARMA acts on layers 1 ",
    "steps alone": "OptionError: embedding_geometry: steps=1 is an int; expected a sequence (each ",
    "permutations": "OptionError: permutations=1000000000: expected 1 to 100000, e.g. 999",
    "step -1": "OptionError: step=-1: expected 0 … 8, for total=9 steps",
    "a run of none": "OptionError: step=0: expected 0 … -1, for total=0 steps",
    "examples below 0": "OptionError: n_examples=-1: expected 0 or more",
    "a thesaurus of 3": "OptionError: ThesaurusSource: mapping=3 is an int; expected a mapping fro",
    "a curve from None": "OptionError: CapCurve.load: folder=None; expected a string or a path",
    "curves of numbers": "OptionError: compare_curves: curves[0]=3 is an int; expected a CapCurve",
    "a mapping to None": "OptionError: compare_curves: curves['a']=None; expected a CapCurve",
    "an array of words": "OptionError: pool_groups: how is a ndarray [2] of <U4; expected one of",
    "NA for a word": "OptionError: cap_curve: unit=<NA> is a NAType; expected one of",
    "a frame for a switch": "OptionError: cap_curve: controls is a DataFrame [1, 1]; expected True",
    "an object for a switch": "OptionError: cap_curve: renumber=",
    "a tracker of 3": "OptionError: finetune: track=3 is an int; expected a function or None",
    "a run of 3": "OptionError: phase_diagram: run=3 is an int; expected a PhaseRun or None",
    "speed of 3": "OptionError: fitting_speed: run=3 is an int; expected a PhaseRun or None",
    "runs into None": "OptionError: phase_diagram: out=None; expected a string or a path",
    "seeds of 10**9": "OptionError: seeds=1000000000: expected a whole number, 1 to 10000",
    "slurm a text": "OptionError: run_sweep: slurm='x' is a str; expected a mapping or None",
    "status of None": "OptionError: sweep_status: out=None; expected a string or a path",
    "a decoder of a dict": "OptionError: small_decoder: config={} is a dict; expected a DecoderCon",
    "a giant": "OptionError: DecoderConfig(d_model=1000000000, n_layers=2, n_heads=1",
    "a long sequence": "OptionError: length=1000000000: expected at most 4096",
    "many sequences": "OptionError: n=1000000000: expected a whole number, 1 to 10000000",
    "an operation that fails": "InputError: the operation of 'a' raises ZeroDivisionError for 20 (",
    "data to nowhere": "DeviceError: device 'nowhere' cannot be used by this PyTorch",
    "a tokenizer of 3": "OptionError: tokenize_prompts: tokenizer=3 is an int; expected a function",
    "a text for texts": "OptionError: tokenize_prompts: examples='a b' is a str; expected a sequen",
    "weights of no name": "OptionError: path='' names no file; expected one such as w.safetensors",
    "no name for weights": "OptionError: path='' names no file; expected one such as w.safetensors",
    "a folder for rows": "OptionError: path='.' is a folder; expected a file, such as rows.jsonl",
    "a frame for a tagger": "OptionError: tagger=a DataFrame [0, 0]: expected a spaCy pipeline",
    "a tagger of 3": "OptionError: tagger=3: expected a spaCy pipeline, or None",
    "no name of a file": "OptionError: read_examples: source='",
    "no name of a thesaurus": "OptionError: synonym_source: name='",
    "NUL in a path": "OptionError: CapCurve.load: folder='a\\x00b' is a str; expected a path with",
    "half a surrogate pair": "OptionError: save_weights: path='\\ud800' is a str; expected a path",
    "a mechanism without tables": "InputError: no table of runs: expected one with the numbers tra",
    "a diagram of texts": "InputError: no table of runs: expected one with the numbers train, id, ",
    "an array of one number": "OptionError: read_pairs: source is a ndarray [] of int64; expected ",
    "positions beyond": "PositionError: position_ids hold 1000000: expected 0 to 63",
    "samples beyond": "InputError: samples a Tensor [1] of torch.int64 of 5: index 9 is out of bou",
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of(SCRIPT)


@pytest.mark.parametrize("name", EXPECTED)
def test_it_is_refused_by_name(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name].startswith(EXPECTED[name])
