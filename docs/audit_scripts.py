"""Scripts that show the wrong entries of ``_generated/audits.md`` with TransformerLens alone.

``python -m docs.audit_scripts`` lists the entries; with an architecture and an entry of its row, it
prints the script (two, where the entry is wrong and its edits are discarded as well)::

    python -m docs.audit_scripts OPT attn.hook_pattern > discarded.py

There is one template for each kind of entry. Each builds the architecture with random weights, has
at most 15 lines, needs torch, transformers and transformer-lens, and ends in an assertion that
fails once TransformerLens has mended the entry. ``python -m docs.audit_scripts --run`` runs the
scripts of all entries, or of those named, in one process: in about a minute of one core. Its exit
status is 1 if some do not show their entry, which it lists.
"""

from __future__ import annotations

import argparse
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from tqdm.auto import tqdm

from docs.audits import LAYER, NATIVE, written
from interp_compose.models.bridge import bridge_around
from tests import architectures

LOGITS: Final = "logits"
"""The entry of an architecture that is refused since its logits are wrong."""
IMPORTS: Final = """\
import torch
import transformers as hf
from transformer_lens.model_bridge.sources import build_bridge_from_module
"""
MODEL: Final = """\
model = hf.{model}(config).eval()
bridge = build_bridge_from_module(model, "{model}", hf_config=config)
"""
DISCARDED: Final = """\
tokens, seen = torch.arange(3, 10)[None], []
clean = bridge({call})
with bridge.hooks(fwd_hooks=[("{hook}", lambda value, hook: seen.append(hook) or \
(value + 9 * torch.randn(value.shape)).to(value.dtype))]):
    edited = bridge({call})
assert seen and torch.equal(edited, clean), "the edit acts, or the hook never fires"
"""
SCORES: Final = """\
tokens = torch.arange(3, 10)[None]
_, cache = bridge.run_with_cache({call})
scores, pattern = cache["{hook}"], cache["{pattern}"]
softmax = scores.masked_fill(pattern == 0, -torch.inf).softmax(dim=-1)
assert (softmax - pattern).abs().max() > 0.01, "the pattern is the softmax of these scores"
"""
MEAN: Final = """\
tokens = torch.arange(3, 10)[None]
_, cache = bridge.run_with_cache({call})
z, pattern, v = cache["{hook}"], cache["{pattern}"], cache["{values}"]
v = v.repeat_interleave(pattern.shape[1] // v.shape[2], dim=2)
mean = torch.einsum("bhqk,bkhd->bqhd", pattern, v)
assert (z.reshape(mean.shape) - mean).abs().max() > 0.01, "each head's z is its values' mean"
"""
SUM: Final = """\
tokens = torch.arange(3, 10)[None]
_, cache = bridge.run_with_cache({call})
total = sum(cache["{place}." + name] for name in {parts})
assert (cache["{hook}"] - total).abs().max() > 0.01 * total.std(), "it is the sum"
"""
COPY: Final = """\
tokens = torch.arange(3, 10)[None]
clean = bridge({call})
with bridge.hooks(fwd_hooks=[("{hook}", lambda value, hook: value.clone())]):
    copied = bridge({call})
assert (copied - clean).abs().max() > 0.01 * clean.std(), "a copy changes nothing"
"""
OTHER: Final = """\
model, tokens = hf.{model}(config).eval(), torch.arange(3, 10)[None]
mask = torch.ones_like(tokens)
own = model(tokens, attention_mask=mask).logits
bridge = build_bridge_from_module(model, "{model}", hf_config=config)
logits = bridge(tokens, attention_mask=mask)
assert (logits - own).abs().max() > 0.001 * own.std(), "the logits are the model's own"
"""
KINDS: Final = {
    "discarded": DISCARDED,  # an edit that runs, and changes nothing
    "scores": SCORES,  # hook_attn_scores shows something else than its softmax was given
    "mean": MEAN,  # hook_z shows something else than each head's mean of hook_v under hook_pattern
    "sum": SUM,  # the residual is not what entered the block and what its sublayers added
    "copy": COPY,  # a hook that returns a copy of what it was shown moves the output
    "logits": OTHER,  # other logits than the module's own forward pass
}
UNSET: Final = ("transformers_version", "architectures", "model_type", "dtype", "_name_or_path")
"""Entries of a config that are no settings."""


def entries() -> Iterator[tuple[str, str, str]]:
    """Architecture, kind and entry (a hook point without the number of its layer) of everything
    that the table has as wrong or discarded."""
    for architecture, cells in written().items():
        if cells[1] == "refused: other numbers":
            yield architecture, "logits", LOGITS
        if cells[1].startswith("refused"):
            continue
        for column in (2, 3):
            for entry in re.findall(r"`([^`]+)`", cells[column]):
                yield architecture, kind_of(entry, wrong=column == 2), entry


def kind_of(entry: str, *, wrong: bool) -> str:
    """Which template shows an entry.

    Raises:
        ValueError: none.
    """
    if not wrong:
        return "discarded"
    if entry.endswith("hook_attn_scores"):
        return "scores"
    if entry.endswith(("hook_resid_mid", "hook_resid_post")):
        return "sum"
    if entry.endswith("hook_z"):
        return "mean"
    if entry.endswith(("hook_normalized", "hook_scale")):
        return "copy"
    raise ValueError(f"no script shows that {entry!r} is wrong; add its kind to KINDS")


def script(architecture: str, kind: str, entry: str) -> str:
    """The script of one entry.

    Raises:
        ValueError: the architecture has no such hook point.
    """
    build, setting = opening(architecture, kind)
    if kind == "logits":
        return build + OTHER.format(**setting)
    names = [name for name in _hook_points(architecture) if shown(name) == entry]
    if not names:
        raise ValueError(f"{architecture} has no hook point {entry!r}")
    place = names[0].rpartition(".")[0]
    setting |= {"hook": names[0], "place": place}
    setting |= {"pattern": f"{place}.hook_pattern", "values": f"{place}.hook_v"}
    added = ["hook_resid_pre", "hook_attn_out", "hook_mlp_out"]
    setting["parts"] = repr(added[:2] if entry.endswith("mid") else added)
    return build + KINDS[kind].format(**setting)


def opening(architecture: str, kind: str) -> tuple[str, dict[str, str]]:
    """The lines before the template of a kind, and what it is told of the model: the name of its
    class, and the arguments of a call."""
    if architecture == NATIVE:
        return _native(), {"call": "tokens"}
    config, name, two_stacks = _config(architecture, eager=kind != "logits")
    setting = {"model": name, "call": "tokens" + ", decoder_input_ids=tokens" * two_stacks}
    return IMPORTS + config + MODEL.format(**setting) * (kind != "logits"), setting


@cache
def _hook_points(architecture: str) -> tuple[str, ...]:
    if architecture == NATIVE:
        return tuple(architectures.build_native().hook_dict)
    return tuple(bridge_around(architectures.build(architecture)).hook_dict)


def shown(name: str) -> str:
    """A hook point as the table has it."""
    return re.sub(LAYER, lambda found: found[1] or "", name)


@cache
def _config(architecture: str, *, eager: bool) -> tuple[str, str, bool]:
    """The statement that makes the config of a model, the name of the model's class, and whether it
    is an encoder–decoder."""
    model = architectures.build(architecture)
    config, default = model.config, type(model.config)().to_dict()
    arguments = [f"{name}={value!r}" for name, value in _set(config.to_dict(), default).items()]
    if eager:  # as load_model sets it; logits are compared as transformers comes
        arguments.append('attn_implementation="eager"')
    wrapped = textwrap.wrap(", ".join(arguments), 180, break_long_words=False)
    first = f"config = hf.{type(config).__name__}("
    statement = first + "\n    ".join(wrapped) + ")\n"
    return statement, type(model).__name__, bool(config.is_encoder_decoder)


def _set(config: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """What differs from a default config; of a config in it (T5Gemma's encoder) as well."""
    return {
        name: _set(value, default[name])
        if isinstance(value, dict) and "model_type" in (default.get(name) or ())
        else value
        for name, value in config.items()
        if name not in UNSET and value != default.get(name)
    }


def _native() -> str:
    """The lines that make TransformerLens' own decoder."""
    return (
        "import torch\n"
        "from transformer_lens.config import TransformerBridgeConfig\n"
        "from transformer_lens.model_bridge import TransformerBridge\n"
        "config = TransformerBridgeConfig(\n"
        "    d_model=40, d_head=20, n_heads=2, n_layers=3, n_ctx=61, d_vocab=97, d_mlp=53,\n"
        '    act_fn="gelu_new", normalization_type="LN", positional_embedding_type="rotary",\n'
        '    architecture="TransformerLensNative", init_mode="gpt2", initializer_range=0.2)\n'
        "bridge = TransformerBridge.boot_native(config).eval()\n"
    )


def failures(known: Sequence[tuple[str, str, str]]) -> list[str]:
    """Of these entries, those that their script does not show, each with the script's error."""
    failed = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in tqdm(known, desc="scripts", unit="script"):
            try:
                exec(compile(script(*one), " ".join(one), "exec"), {})
            except Exception as error:  # noqa: BLE001  whatever a mended entry raises
                failed.append("\t".join([*one, f"{type(error).__name__}: {error}"]))
    return failed


def main(argv: Sequence[str] | None = None) -> None:
    """List the entries, print the script of one, or run scripts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("architecture", nargs="?", help="as the table names it")
    parser.add_argument("entry", nargs="?", help="a hook point of its row, or logits")
    parser.add_argument("--run", action="store_true", help="run the scripts of all that is named")
    asked = parser.parse_args(argv)
    named = (asked.architecture, asked.entry)
    known = [one for one in entries() if named[0] in (None, one[0]) and named[1] in (None, one[2])]
    if not known:
        parser.error(f"the table has no entry {asked.entry or ''!r} of {asked.architecture!r}")
    if asked.run:
        failed = failures(known)
        print(f"{len(known) - len(failed)} of {len(known)} scripts show their entry")
        if failed:
            raise SystemExit("\n".join(["these do not:", *failed]))
    elif asked.entry is None:
        print("\n".join("\t".join(one) for one in known))
    else:
        print("\n".join(script(*one) for one in known), end="")


if __name__ == "__main__":
    main()
