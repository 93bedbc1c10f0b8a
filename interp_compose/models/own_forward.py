"""What a Hugging Face module computes by its own forward pass, recorded before it is wrapped.

TransformerLens computes some attentions itself instead of calling the wrapped module, and not every
setting reaches its formula (GPT-2's ``scale_attn_weights=False``, Falcon's ALiBi). A fused
projection that it splits leaves out adapters on it. A comparison of the wrapped model with itself
finds neither; this one does, for every module that is loaded. Adapters are compared with random
weights in them, since a new one adds nothing and would seem to be there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from interp_compose.errors import CapabilityError, first_line
from interp_compose.models.base import BaseModel
from interp_compose.models.hooks import in_evaluation_mode
from interp_compose.tensors import check_autocast
from interp_compose.types import Read

LENGTHS = (2, 5, 7)
TARGETS = (3, 2, 4)
"""Lengths of the targets that an encoder–decoder reads with texts of :data:`LENGTHS`."""
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3, torch.float16: 2e-2}
"""How far logits may differ, by dtype, as a share of their standard deviation. In float64 many
attentions of transformers take their softmax in float32 all the same."""
DEFAULT_TOLERANCE = 0.1
"""The tolerance for bfloat16 and any other dtype."""
AS_ROUNDED = 4
"""How many times as far as the wrapped module's outputs the module's own may be from those without
rounding: at most 2.04 in 128 random models of 3 to 32 layers (GPT-2, Llama, Qwen2; both halves)."""
MOST_ROUNDED = 1.0
"""Standard deviations beyond which outputs are rounding for the most part."""


@dataclass(frozen=True)
class OwnForward:
    """Random texts of several lengths, and the module's outputs for each one alone.

    Attributes:
        texts: token ids ``[pos]`` of each text; of an encoder–decoder those of a source and then of
            a target, see :mod:`.encoder_decoder`.
        outputs: logits ``[pos d_vocab]``, of a target alone where there is one, or last hidden
            states where there is no head.
        hidden: whether ``outputs`` are hidden states.
        adapted: the class of an adapter inside the module, or None.
        adapters: the weights of all adapters, which hold random numbers while outputs are computed.
    """

    texts: Sequence[Int[Tensor, "_"]]
    outputs: Sequence[Float[Tensor, "_ width"]]
    hidden: bool
    adapted: str | None
    adapters: Sequence[Tensor] = ()

    @classmethod
    @torch.no_grad()
    def of(cls, module: Any, *, hidden: bool = False) -> OwnForward:
        """Run ``module`` in evaluation mode, without mask or positions, and restore its mode.

        Raises:
            CapabilityError: the module refuses plain token ids.
        """
        config = module.config.get_text_config()
        longest = int(getattr(config, "max_position_embeddings", None) or LENGTHS[-1])
        pad_id = getattr(config, "pad_token_id", None)
        generator = torch.Generator().manual_seed(0)
        texts, outputs = [], []
        adapters = _adapter_weights(module)
        try:
            with in_evaluation_mode(module), _random(adapters):
                for length, of_target in zip(LENGTHS, TARGETS, strict=True):
                    ids = torch.randint(
                        0, config.vocab_size, (min(length, longest),), generator=generator
                    )
                    if pad_id is not None:  # RoBERTa treats it as padding at every position
                        ids[ids == pad_id] = (pad_id + 1) % config.vocab_size
                    arguments = {"input_ids": ids[None].to(_device(module))}
                    if module.config.is_encoder_decoder:
                        size = getattr(config, "decoder_vocab_size", None) or config.vocab_size
                        target = torch.randint(
                            0, size, (min(of_target, longest),), generator=generator
                        )
                        arguments["decoder_input_ids"] = target[None].to(_device(module))
                        # [source+target]: ids of target tokens come after the source vocabulary.
                        ids = torch.cat([ids, target + config.vocab_size])
                    out = module(**arguments)
                    texts.append(ids)
                    outputs.append((out.last_hidden_state if hidden else out.logits)[0].cpu())
        except (
            *(RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError),
        ) as refusal:
            raise CapabilityError(
                not_in_memory(module)
                or f"the forward pass of this {type(module).__name__} fails on {length} "
                f"token ids alone ({first_line(refusal)}); only models that read a text as plain "
                "token ids can be loaded."
            ) from refusal
        return cls(texts, outputs, hidden, _adapter(module), adapters)

    @torch.no_grad()
    def check(self, model: BaseModel, wrap: Callable[[nn.Module], object]) -> None:
        """Compare ``model``, which wraps the module now: one batch of all texts, padded left, then
        right. ``wrap`` wraps and checks a smaller module of the same class.

        Raises:
            CapabilityError: logits differ by more than rounding in the model's dtype.
            OptionError: inside ``torch.autocast``.
        """
        largest, text, tolerance = self.difference(model)
        if largest > tolerance and not (
            model.dtype.itemsize == 2 and self._is_rounding(model, wrap)
        ):
            raise CapabilityError(self._refusal(model, largest, text, tolerance))

    @torch.no_grad()
    def difference(self, model: BaseModel) -> tuple[float, str, float]:
        """The largest difference, in standard deviations, for which text, and what of it may be
        rounding."""
        check_autocast(model.device, f"the check of {model.name!r} at loading")
        largest, text = 0.0, ""
        with _random(self.adapters):
            for padding, outputs in self._calls(model):
                for output, expected in zip(outputs, self.outputs, strict=True):
                    # Of an encoder–decoder the last positions, which are the target's.
                    error = _relative_error(output.cpu()[-len(expected) :], expected)
                    if error > largest:
                        largest, text = error, f"a text of {len(expected)} tokens, {padding}"
        return largest, text, TOLERANCE.get(model.dtype, DEFAULT_TOLERANCE)

    def _is_rounding(self, model: BaseModel, wrap: Callable[[nn.Module], object]) -> bool:
        """Whether the module's outputs are about as far as the wrapped one's from those with the
        same weights in float32 (in memory with the others for that while), and a small model of
        this class and config is wrapped right."""
        # 1. The wrapped model as it is, and with the same weights in float32.
        rounded = [output for _, outputs in self._calls(model) for output in outputs]
        with _in_float32(model.lens):
            exact = [output for _, outputs in self._calls(model) for output in outputs]
        # 2. How far from float32 the module by its own forward pass is, and the wrapped one.
        # The texts come twice, padded on the left and on the right.
        own_error = wrapped_error = 0.0
        for output, reference, expected in zip(rounded, exact, [*self.outputs] * 2, strict=True):
            output, reference = (one.cpu()[-len(expected) :] for one in (output, reference))
            own_error = max(own_error, _relative_error(expected, reference))
            wrapped_error = max(wrapped_error, _relative_error(output, reference))
        if own_error > AS_ROUNDED * wrapped_error:
            return False
        if own_error > MOST_ROUNDED:
            raise CapabilityError(
                f"{model.name!r} cannot be loaded in {model.dtype}: its numbers are rounding for "
                f"the most part, by {own_error:.2g} standard deviations others than with the same "
                "weights in float32. Load it in float32 (dtype='float32', or module.float())."
            )
        # 3. Rounding may hide another formula: two layers of this config in float32 would show it.
        if small := small_random_model(getattr(model.lens, "original_model", None)):
            wrap(small)
        return True

    def _calls(self, model: BaseModel) -> Iterator[tuple[str, list[Tensor]]]:
        """Ways to run the texts, and what each text gets."""
        read: Read = "hidden" if self.hidden else "logits"
        if model.dtype == torch.float64:  # padding is refused where it makes NaN, see BaseModel
            alone = [ids[None] for ids in self.texts]
            yield "alone", [model.probing(ids, torch.ones_like(ids), read=read)[0] for ids in alone]
            return
        width = max(map(len, self.texts))
        for side in ("left", "right"):
            tokens = torch.full((len(self.texts), width), model.pad_id or 0, dtype=torch.long)
            mask = torch.zeros_like(tokens)
            for row, ids in enumerate(self.texts):
                columns = slice(width - len(ids), None) if side == "left" else slice(len(ids))
                tokens[row, columns], mask[row, columns] = ids, 1
            outputs = model.probing(tokens, mask, read=read).cpu()
            rows = zip(outputs, mask.bool(), strict=True)
            yield f"padded on the {side}", [one[real] for one, real in rows]

    def _refusal(self, model: BaseModel, error: float, text: str, tolerance: float) -> str:
        start = (
            f"{model.name!r} cannot be loaded: behind TransformerLens "
            f"{version('transformer-lens')}, {model.architecture} gives other numbers than its own "
            f"forward pass in transformers (off by {error:.2g} standard deviations for {text}; "
            f"{tolerance:g} may be rounding). "
        )
        if self.adapted is not None:
            return start + (
                f"It holds adapters ({self.adapted}), which TransformerLens leaves out where it "
                "splits a fused projection (compared with random weights in them): merge them "
                "first (PeftModel.merge_and_unload())."
            )
        return start + (
            "TransformerLens computes this configuration in another way, and every number here "
            "would be of that other model. Your own forward hooks on the module can be the cause: "
            "add them after loading."
        )


def small_random_model(module: Any) -> Any | None:
    """A model of the same class and config with two layers and large random weights, so that every
    setting shows; None where the class is not transformers' own or cannot be built so."""
    kind = type(module)
    if not kind.__module__.startswith("transformers."):
        return None
    config = copy.deepcopy(module.config)
    text = config.get_text_config()
    layers = ["num_hidden_layers"]
    if config.is_encoder_decoder:
        layers += ["num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"]
    try:
        if getattr(text, "layer_types", None):
            text.layer_types = list(text.layer_types)[:2]
        for name in layers:
            if hasattr(text, name):
                setattr(text, name, min(2, getattr(text, name)))
        model = kind(config).eval()
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        return None
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                noise = torch.randn(weight.shape, generator=generator)
                # Products with a variance of 4: scores are large, and no softmax is nearly uniform.
                weight.copy_(noise * 2 / weight.shape[-1] ** 0.5)
    return model


def _relative_error(output: Tensor, expected: Tensor) -> float:
    """Largest difference in standard deviations of ``expected``; 0 where numbers are not finite,
    which the probes of capabilities refuse by name."""
    if not bool(expected.isfinite().all() and output.isfinite().all()):
        return 0.0
    output, expected = output.double(), expected.double()
    return float((output - expected).abs().max() / expected.std().clamp(min=1e-12))


def not_in_memory(module: nn.Module) -> str:
    """What to say of weights without values; an empty text where all have them."""
    absent = [name for name, weight in module.named_parameters() if weight.is_meta]
    if not absent:
        return ""
    return (
        f"{len(absent)} weights of this {type(module).__name__}, such as {absent[0]!r}, are not in "
        "memory (on the meta device, or offloaded by accelerate): load the whole model onto "
        "devices that hold it, with no 'cpu' or 'disk' beside a GPU in its device_map, and without "
        "cpu_offload; with dtype='bfloat16' it takes half of the memory."
    )


@contextmanager
def _in_float32(lens: Any) -> Iterator[None]:
    """Weights and buffers in float32 for the length of a ``with`` block."""
    parts = (lens, getattr(lens, "original_model", lens))
    tensors = {id(t): t for part in parts for t in (*part.parameters(), *part.buffers())}
    kept = [(tensor, tensor.data) for tensor in tensors.values() if tensor.is_floating_point()]
    try:
        # `.data` alone changes, so that weights that are tied stay one.
        for tensor, data in kept:
            tensor.data = data.float()
        yield
    finally:
        for tensor, data in kept:
            tensor.data = data


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device


@contextmanager
def _random(weights: Sequence[Tensor]) -> Iterator[None]:
    """Random numbers in ``weights``, the same each time, for the length of a ``with`` block."""
    kept = [weight.clone() for weight in weights]
    generator = torch.Generator().manual_seed(0)
    try:
        for weight in weights:
            noise = torch.randn(weight.shape, generator=generator)
            # N(0, 1 / inputs), so that what an adapter adds is as large as what enters it.
            weight.copy_(noise / max(weight.shape[-1:], default=1) ** 0.5)
        yield
    finally:
        for weight, values in zip(weights, kept, strict=True):
            weight.copy_(values)


def _adapter_weights(module: nn.Module) -> list[Tensor]:
    """The weights of all adapters in a module, without those of the layers that they adapt."""
    weights = {
        id(weight): weight.data
        for part in module.modules()
        if type(part).__module__.startswith("peft.")
        for name, weight in part.named_parameters()
        if "base_layer" not in name.split(".") and weight.is_floating_point()
    }
    adapted = {
        id(weight)
        for part in module.modules()
        if (layer := getattr(part, "base_layer", None)) is not None
        for weight in layer.parameters()
    }
    return [weight for identity, weight in weights.items() if identity not in adapted]


def _adapter(module: nn.Module) -> str | None:
    """The class of the first part that comes from peft, whose name is not imported for it."""
    kinds = (type(part) for part in module.modules())
    names = (f"{kind.__module__}.{kind.__name__}" for kind in kinds)
    return next((name for name in names if name.startswith("peft.")), None)
