"""The model as a whole: calls, padding, neighbours in a batch, gradients, errors, compiling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any, Final

import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.models.capabilities import MEANING
from interp_compose.models.generate import keeps_and_goes_on
from interp_compose.models.lens_model import LensModel
from interp_compose.models.outcomes import Outcome, Status, compared, guarded
from interp_compose.models.texts import texts_of
from interp_compose.models.untouched import random_states_kept
from interp_compose.models.weight_matrices import MATRICES, weight_matrices
from interp_compose.types import HookFn, Read

LENGTHS: Final = (7, 5, 3)
STEPS: Final = (1e-3, 1e-2, 1e-4)
"""Of finite differences, in standard deviations of the residual, until one is close: the curvature
shows in large ones, rounding in small ones."""
CLOSE: Final = 0.05
"""How far a gradient may be off, in units of a random direction's slope."""


def checks_of(
    model: LensModel, tokens: Int[Tensor, "batch pos"], *, compiled: bool
) -> dict[str, Callable[[], Outcome]]:
    """Every check of a model in evaluation mode, by its name: the capabilities that studies rely
    on, and more."""
    checks: dict[str, Callable[[LensModel, Tensor], Outcome]] = {
        "no token changes the output at positions before it": _causal,
        "resuming at any layer gives the output of the whole": _resumed,
        "a text's output does not depend on its neighbours, padded on either side": _neighbours,
        "each weight, applied by hand, gives what its module returned": _weights,
        "gradients at hook points are those of finite differences": _gradients,
        "after an error in a hook the model is as it was": _after_an_error,
        "generation that keeps keys and values gives the logits of whole calls": (
            lambda model, tokens: keeps_and_goes_on(model)
        ),
        "strings give what their tokens give, BOS included, padded on either side": _strings,
        "an encoder–decoder's loss with labels is Hugging Face's": _loss,
    }
    if compiled:
        checks["a hook added after torch.compile acts"] = _compiled
    return {
        name: partial(guarded, check)
        for name, check in (
            *((meaning, partial(_capability, model, name)) for name, meaning in MEANING.items()),
            *((name, partial(check, model, tokens)) for name, check in checks.items()),
        )
    }


def _capability(model: LensModel, name: str) -> Outcome:
    """What the probe of a capability came to."""
    probes = model.capabilities.probes  # all in one go
    return probes[name].outcome(of_edit=name.startswith("edit_"))


def _read(model: LensModel) -> Read:
    return "hidden" if model.bidirectional else "logits"


def _real(model: LensModel, tokens: Tensor, outputs: Tensor) -> Tensor:
    """Where there is something to read."""
    return outputs.flatten(0, 1) if model.bidirectional else outputs[model.predicts(tokens)]


def called_again(model: LensModel, tokens: Tensor) -> Outcome:
    """Whether dropout, or something else, draws in each call anew; the random states are kept."""
    with random_states_kept(model.lens):
        first, second = (
            _real(model, tokens, model.forward(tokens, read=_read(model))) for _ in range(2)
        )
    change = float((first.float() - second.float()).abs().max())
    mode = ", in training mode: model.eval() turns dropout off" if model.training else ""
    status: Status = "holds" if torch.equal(first, second) else "wrong"
    return Outcome(status, f"moved by {change:.1e}{mode}")


def _causal(model: LensModel, tokens: Tensor) -> Outcome:
    """Each token is another one in a row of its own, next to the row as it was."""
    if model.bidirectional:
        return Outcome("not tried", "tokens attend to later ones")
    predicts = model.predicts(tokens)[0]
    places = predicts.nonzero()[1:, 0].tolist()  # of an encoder–decoder: those of the target
    if not places:
        return Outcome("not tried", "of a single position")
    rows = tokens[:1].repeat(len(places) + 1, 1)
    shifted = model.shifted(rows, 1)
    for row, place in enumerate(places, 1):
        rows[row, place] = shifted[row, place]
    outputs = model.forward(rows)

    def outcomes() -> Iterator[Outcome]:
        for row, place in enumerate(places, 1):
            before = predicts.clone()
            before[place:] = False
            outcome = compared(model, outputs[row, before], outputs[0, before])
            yield Outcome(outcome.status, f"{outcome.detail} before position {place}")

    return _first_wrong(outcomes())


def _resumed(model: LensModel, tokens: Tensor) -> Outcome:
    names = [f"blocks.{layer}.hook_resid_pre" for layer in range(model.n_layers)]
    whole, store = model.capture(tokens, names, read=_read(model))
    mask = torch.ones_like(tokens)
    options: Any = {"attention_mask": mask, "position_ids": model.positions(tokens, mask)}

    def outcomes() -> Iterator[Outcome]:
        for layer, name in enumerate(names):
            outputs = model.resume(store[name], layer, read=_read(model), **options)
            outcome = compared(model, _real(model, tokens, outputs), _real(model, tokens, whole))
            yield Outcome(outcome.status, f"{outcome.detail} from layer {layer}")

    return _first_wrong(outcomes())


def _first_wrong(outcomes: Iterator[Outcome]) -> Outcome:
    """The first outcome that is wrong, or else the first; what follows a wrong one is not tried."""
    first = next(outcomes)
    return next((one for one in chain([first], outcomes) if one.status == "wrong"), first)


def _neighbours(model: LensModel, tokens: Tensor) -> Outcome:
    lengths = [length for length in LENGTHS if length <= model.n_ctx]
    generator = torch.Generator().manual_seed(1)
    texts = [model.random_tokens(1, length, generator).to(model.device) for length in lengths]
    alone = [_real(model, text, model.forward(text, read=_read(model))) for text in texts]

    def outcomes() -> Iterator[Outcome]:
        for side in ("left", "right"):
            batch = torch.full((len(texts), max(lengths)), model.pad_id or 0, device=model.device)
            mask = torch.zeros_like(batch)
            places = [
                slice(max(lengths) - length, None) if side == "left" else slice(length)
                for length in lengths
            ]
            for row, (text, place) in enumerate(zip(texts, places, strict=True)):
                batch[row, place], mask[row, place] = text[0], 1
            outputs = model.forward(batch, attention_mask=mask, read=_read(model))
            for row, (alone_output, place) in enumerate(zip(alone, places, strict=True)):
                batched = _real(model, texts[row], outputs[row : row + 1, place])
                outcome = compared(model, batched, alone_output)
                yield Outcome(outcome.status, f"{outcome.detail}, padded on the {side}")

    return _first_wrong(outcomes())


def _weights(model: LensModel, tokens: Tensor) -> Outcome:
    """Of a projection times what it was given, but for a bias that is one for all positions; of
    W_E the rows of the tokens, but for the scale that some models give them."""
    passed: dict[int, Any] = {}

    def through(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        passed[id(module)] = inputs[0] if inputs else None, output

    with ExitStack() as hooks:
        for part in model.lens.modules():
            hooks.callback(part.register_forward_hook(through).remove)
        model.forward(tokens, read="logits" if getattr(model, "has_head", True) else "hidden")

    def outcomes() -> Iterator[Outcome]:
        for matrix in weight_matrices(model, tuple(m for m in MATRICES if "W_pos" not in m)):
            inputs, output = passed.get(id(matrix.module), (None, None))
            if inputs is None or output.shape[-1] not in matrix.weight.shape:
                continue
            if inputs.is_floating_point():
                expected = inputs.to(output.device) @ matrix.weight.to(output.device).mT
                expected = expected + (output - expected).flatten(0, -2).mean(dim=0)
            else:
                expected = matrix.weight[inputs]
                expected = expected * (output * expected).sum() / expected.square().sum()
            outcome = compared(model, output, expected)
            place = f"{matrix.name}, layer {matrix.layer}"
            yield Outcome(outcome.status, f"{outcome.detail} of {place}")
        yield Outcome("not tried", "no weight is in a module of its own")

    return _first_wrong(outcomes())


def _gradients(model: LensModel, tokens: Tensor) -> Outcome:
    """The derivative along a random direction at each layer's entry, both ways: a right gradient is
    met by one of several steps.

    The derivative is with respect to what a hook returns, as an edit there would be: what a hook is
    shown may be read elsewhere as well (Gemma 4 computes its per-layer inputs from the embeddings
    that enter layer 0).
    """
    if model.dtype != torch.float32:
        return Outcome("not tried", "finite differences need float32")
    names = [f"blocks.{layer}.hook_resid_pre" for layer in range(model.n_layers)]
    generator = torch.Generator().manual_seed(2)
    worst, place = 0.0, ""
    passed: dict[str, Tensor] = {}

    def passes_on(name: str) -> HookFn:
        def returns_its_own(value: Tensor, hook: Any) -> Tensor:
            # What comes from frozen weights alone has no gradient yet.
            differentiable = value if value.requires_grad else value.detach().requires_grad_()
            passed[name] = differentiable.view_as(differentiable)
            return passed[name]

        return returns_its_own

    with torch.enable_grad():
        hooks = [(name, passes_on(name)) for name in names]
        outputs = model.run_with_hooks(tokens, hooks, read=_read(model))
        real = _real(model, tokens, outputs)
        weights = torch.randn(real.shape, generator=generator).to(real)
        score = (real * weights).sum()
        if not score.requires_grad:
            return Outcome("wrong", f"no gradient reaches {names[-1]}")
        gradients = torch.autograd.grad(score, [passed[name] for name in names], allow_unused=True)
    for name, gradient in zip(names, gradients, strict=True):
        if gradient is None or not bool(gradient.abs().max() > 0):
            return Outcome("wrong", f"no gradient reaches {name}")
        clean = passed[name].detach()
        direction = torch.randn(clean.shape, generator=generator).to(clean) * clean.std()

        def moved(by: float, name: str = name, direction: Tensor = direction) -> Tensor:
            edit = [(name, lambda value, hook: value + by * direction)]
            outputs = model.run_with_hooks(tokens, edit, read=_read(model))
            return (_real(model, tokens, outputs).double() * weights.double()).sum()

        expected = float((gradient.double() * direction.double()).sum())
        size = float(gradient.double().norm() * direction.double().norm())
        unit, error = size / math.sqrt(clean.numel()), math.inf
        for step in STEPS:
            slope = float(moved(step) - moved(-step)) / (2 * step)
            error = min(error, abs(slope - expected) / unit)
            if error < CLOSE:
                break
        if error >= worst:
            worst, place = error, name
    status = "holds" if worst < CLOSE else "wrong"
    return Outcome(status, f"off by {worst:.1e} of a random direction's slope at {place}")  # type: ignore[arg-type]


def _after_an_error(model: LensModel, tokens: Tensor) -> Outcome:
    before, acting = model.forward(tokens, read=_read(model)), set(model.active_hooks)

    def fails(value: Tensor, hook: Any) -> Tensor:
        raise _Expected

    name = f"blocks.{model.n_layers // 2}.hook_resid_pre"
    try:
        model.run_with_hooks(tokens, [(name, fails)], read=_read(model))
    except _Expected:
        pass
    else:
        return Outcome("wrong", f"an error in a hook at {name} was swallowed")
    after = model.forward(tokens, read=_read(model))
    same = torch.equal(_real(model, tokens, before), _real(model, tokens, after))
    remaining = sorted(set(model.active_hooks) - acting)
    detail = f"hooks that are left: {', '.join(remaining) or 'none'}"
    return Outcome("holds" if same and not remaining else "wrong", detail)


def _strings(model: LensModel, tokens: Tensor) -> Outcome:
    """Texts of several lengths in a batch, here and, of a decoder, through TransformerLens, padded
    on either side; each against a call of its own with the tokenizer's ids."""
    if model.tokenizer is None:
        return Outcome("not tried", "it came without a tokenizer")
    ids = tokens[0, model.predicts(tokens)[0]] % model.d_vocab
    texts = [text for n in (2, 3, len(ids)) for text in texts_of(model, [ids[:n]]) if text.strip()]
    calls = [model.tokenize(text).tokens for text in texts]
    if not calls or max(alone.shape[1] for alone in calls) > model.n_ctx:
        return Outcome("not tried", "its random tokens are no text")
    decoder = not model.bidirectional and len(model.stacks) == 1
    lens: Any = model.lens if decoder and getattr(model.lens, "tokenizer", None) else None

    def outcomes() -> Iterator[Outcome]:
        batches = {"here": ("left", model.forward(texts, read=_read(model)))}
        for side in ("left", "right") if lens is not None else ():
            caller = f"by model.lens, padded on the {side}"
            batches[caller] = side, lens(texts, padding_side=side)
        for row, alone in enumerate(calls):
            if lens is not None and not torch.equal(lens.to_tokens(texts[row]), alone):
                yield Outcome("wrong", f"model.lens gives {texts[row]!r} other ids (BOS?)")
            expected = _real(model, alone, model.forward(alone, read=_read(model)))
            for caller, (side, outputs) in batches.items():
                place = slice(-alone.shape[1], None) if side == "left" else slice(alone.shape[1])
                batched = _real(model, alone, outputs[row : row + 1, place])
                outcome = compared(model, batched, expected)
                yield Outcome(outcome.status, f"{outcome.detail} {caller}")

    return _first_wrong(outcomes())


def _loss(model: LensModel, tokens: Tensor) -> Outcome:
    """TransformerLens' mean loss of targets, one of them ignored, against Hugging Face's."""
    module: Any = getattr(model.lens, "original_model", None)
    if len(model.stacks) < 2 or module is None:
        return Outcome("not tried", "of a Hugging Face encoder–decoder")
    generator = torch.Generator().manual_seed(4)
    source, labels = (
        torch.randint(size, (2, length), generator=generator).to(model.device)
        for size, length in ((model.d_vocab_source, 5), (model.d_vocab, 4))
    )
    labels[1, -1] = -100
    lens_loss = model.lens(source, labels=labels, return_type="loss")
    reference = module(input_ids=source, labels=labels).loss
    return compared(model, lens_loss.reshape(1), reference.reshape(1), spread=1.0)


class _Expected(Exception):
    """The error that a hook of the check raises, and that has to arrive."""


def _compiled(model: LensModel, tokens: Tensor) -> Outcome:
    """Traced by dynamo, without a compiler behind it; the hook is added once it has run."""
    if len(model.stacks) > 1:
        return Outcome("not tried", "of an encoder–decoder")
    point = model.hook_dict[f"blocks.{model.n_layers // 2}.hook_resid_pre"]
    generator = torch.Generator().manual_seed(3)
    torch._dynamo.reset()
    try:
        compiled = torch.compile(model.lens, backend="eager")
        clean = compiled(tokens)
        noise = torch.randn((*tokens.shape, model.d_model), generator=generator)
        handle = point.register_forward_hook(lambda module, args, value: value + noise.to(value))
        try:
            edited, expected = compiled(tokens), model.lens(tokens)
        finally:
            handle.remove()
    finally:
        torch._dynamo.reset()
    if torch.equal(edited, clean):
        return Outcome("discarded", "the compiled call passes the hook by")
    return compared(model, edited, expected)
