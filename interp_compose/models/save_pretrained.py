"""``save_pretrained``: a model in Hugging Face's format again, as it is now.

TransformerLens' bridge wraps the modules of a Hugging Face model in place. Names of weights then
hold ``_original_component``, and a fused projection (GPT-2's ``c_attn``, Phi-3's ``gate_up_proj``)
is split: its parts are what the forward pass reads and training moves, while the fused weight
stays in the module, perhaps out of date. Here every weight is put under its own name in a new
module of the same class and config, which transformers writes.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from interp_compose._public import public
from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    OptionError,
    first_line,
    warn,
)
from interp_compose.models.bridge import SPLITS
from interp_compose.models.effective_weights import INSERTED, acting
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import LOADING_LOCK, load_model
from interp_compose.models.outcomes import Outcome, Status
from interp_compose.models.own_folder import OwnModel, new_folder
from interp_compose.models.own_forward import OwnForward
from interp_compose.models.ready import check_unedited
from interp_compose.models.sentence_config import write_sentence_config
from interp_compose.runs.checksums import SUMS, digests_of, write_sums
from interp_compose.runs.files import disk, temporary_folder
from interp_compose.tensors import check_autocast


@public
def save_pretrained(model: LensModel, folder: str | Path) -> Path:
    """Write a model, as it is now, into a new ``folder`` in Hugging Face's format (safetensors).

    ``from_pretrained(folder)`` of transformers reads it (``AutoModelForCausalLM``,
    ``AutoModelForSeq2SeqLM``, ``AutoModelForMaskedLM``, or ``AutoModel`` for an encoder without a
    head), ``AutoTokenizer`` its tokenizer if it has one, and :func:`.load.load_model` both. What
    was loaded and not changed has every weight bit for bit; adapters and reparametrised layers are
    merged, and a warning says so. What a folder of sentence-transformers states about its embedding
    is written as well.

    The folder gets its name once transformers has read it, on the CPU: every weight has to be the
    one written, and its logits (an encoder's hidden states, where there is no head) those of
    ``model``, up to rounding.

    Args:
        model: from :func:`.load.load_model` or :func:`.finetune.finetune`, in any dtype; kept as
            it is, its tokenizer included.
        folder: must not exist, or be empty.

    Example::

        trained, history = ic.finetune(model, task)
        ic.save_pretrained(trained, "animals")

    Raises:
        OptionError: a ``folder`` that exists and is not empty; a tokenizer that cannot be saved.
        CapabilityError: a model without a class in transformers (such as
            :func:`.small_decoder.small_decoder`'s); weights that the class cannot hold, or that
            make another model of it.
        CorruptFileError: weights that do not survive being written and read.
        InterventionError: interventions are open, which would not be saved.
        OutputError: the folder cannot be written.
    """
    check_unedited(model, "would not be saved")
    check_autocast(model.device, f"saving {model.name!r}")
    folder = new_folder(folder)
    module = _module(model)
    if model.tokenizer is not None and not hasattr(model.tokenizer, "save_pretrained"):
        raise OptionError(
            f"the tokenizer of {model.name!r} is a {type(model.tokenizer).__name__}, which has no "
            "save_pretrained: load the model with one of transformers, load_model(tokenizer=…)."
        )
    with torch.no_grad(), acting(module, module) as merged:
        clean, state = _rebuilt(model, module, "meta")
    with temporary_folder(folder.parent) as temporary:
        with disk(folder):
            clean.save_pretrained(temporary)
            if model.tokenizer is not None:
                model.tokenizer.save_pretrained(temporary)
            if model.stated is not None:
                write_sentence_config(model.stated, temporary, model.d_model)
            files = [path.relative_to(temporary).as_posix() for path in temporary.rglob("*")]
            names = sorted(name for name in files if (temporary / name).is_file())
            write_sums(temporary / SUMS, digests_of(temporary, names))
        _check(model, clean, state, temporary)
        with disk(folder):
            os.replace(temporary, folder)
    if merged:
        warn(
            f"{model.name!r} was saved with what computes weights, such as adapters, merged into "
            f"plain weights: {folder}"
        )
    return folder


def compared_with_new(model: LensModel) -> Outcome:
    """The module that ``model`` wraps, as it is now, with a new one of its class and config that
    gets its weights, which takes memory for them once more: what was altered since it was wrapped
    and is no weight (rotary angles, ε of a norm, a scale) shows in its numbers or its settings."""
    try:
        module = _module(model)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of hooks: what they do is compared
            with acting(module, module):
                new, _ = _rebuilt(model, module, "cpu")
        reference = OwnForward.of(new.to(model.device), hidden=not _has_head(model))
        error, text, tolerance = reference.difference(model)
        altered = next(_altered(module, new), "")
    except (CapabilityError, MemoryError, torch.OutOfMemoryError) as refusal:
        return Outcome("not tried", first_line(refusal))
    status: Status = "wrong" if altered or error > tolerance else "holds"
    from_new = f"off by {error:.1e} standard deviations from a new module of its config and weights"
    return Outcome(status, f"{from_new}, for {text}{altered}")


HARMLESS: Final = (
    *("_", "training", "gradient_checkpointing", "layer_idx", "padding_idx", "max_position"),
)
"""How attributes of modules begin that change no output of a call in evaluation mode."""


def _altered(module: nn.Module, new: nn.Module) -> Iterator[str]:
    """Numbers and buffers that a part of a wrapped module holds otherwise than the same part of a
    new one."""
    live = {(_plain_name(f"{name}."), type(part)): part for name, part in module.named_modules()}
    for name, part in new.named_modules():
        live_part = live.get((f"{name}.", type(part)))
        for key, value in {**vars(part), **part._buffers}.items() if live_part is not None else ():
            is_harmless = key.startswith(HARMLESS) or "dropout" in key or key == "p"
            if isinstance(value, int | float | Tensor) and not is_harmless:
                built = torch.as_tensor(value)
                held = torch.as_tensor(getattr(live_part, key, torch.nan))
                # A cast of the whole model casts buffers as well.
                if built.shape != held.shape or not torch.allclose(built.to(held), held, rtol=1e-4):
                    yield f"; {name}.{key} was altered"


def _module(model: LensModel) -> Any:
    """The wrapped Hugging Face module; the encoder alone where it came without a head."""
    if isinstance(model, OwnModel):
        raise CapabilityError(
            f"{model.name!r} is a {model.KIND} of this library, which has no class in "
            "transformers: save_model(model, folder) keeps it, and load_model(folder) reads it."
        )
    module: Any = getattr(model.lens, "original_model", None)
    if not hasattr(module, "save_pretrained"):
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) holds no Hugging Face model: keep its weights "
            "with save_weights(model, path)."
        )
    return module if _has_head(model) else module.base_model


def _has_head(model: LensModel) -> bool:
    return bool(getattr(model, "has_head", True))


def _options(model: LensModel, module: Any) -> dict[str, Any]:
    """What the class takes with the config: an encoder without a head, whether it pools."""
    if _has_head(model):
        return {}
    return {"add_pooling_layer": getattr(module, "pooler", None) is not None}


def _rebuilt(model: LensModel, module: Any, device: str) -> tuple[Any, dict[str, Tensor]]:
    """A module of the same class and config, whose buffers are on ``device``, and its weights."""
    kind, config = type(module), copy.deepcopy(module.config)
    try:
        with LOADING_LOCK, torch.device(device):
            clean: Any = kind(config, **_options(model, module))
    except Exception as refusal:  # each class raises its own
        raise CapabilityError(
            f"transformers builds no {kind.__name__} from the config of {model.name!r} "
            f"({first_line(refusal)}): keep its weights with save_weights(model, path)."
        ) from refusal
    if getattr(module, "generation_config", None) is not None:
        clean.generation_config = copy.deepcopy(module.generation_config)
    state = _state(model, module, clean)
    clean.load_state_dict(state, strict=True, assign=True)
    clean.tie_weights()
    return clean.eval(), state


def _state(model: LensModel, module: Any, clean: nn.Module) -> dict[str, Tensor]:
    """Every weight by the name that it has in ``clean``, on the CPU, none a part of another.

    Raises:
        CapabilityError: a weight of one is missing in the other, is not on any device, or is tied
            by the config and differs from the other.
    """
    # 1. What the module holds, and the fused projections joined again in the place of stale ones.
    live = {_plain_name(name): weight for name, weight in module.state_dict(keep_vars=True).items()}
    joined, parts = _joined(model, module)
    # 2. By the names of the new module: nothing may be missing, and nothing left over.
    expected = clean.state_dict(keep_vars=True)
    seen = {_memory(live[name]) for name in expected if name in live} | parts
    live |= joined
    missing = [name for name in expected if name not in live]
    if missing:
        raise _unlike(model, f"it has no {missing[0]!r}")
    for name, weight in module.named_parameters():
        if _plain_name(name) not in expected and _memory(weight) not in seen:
            raise _unlike(model, f"its weight {_plain_name(name)!r} has no place there")
    # 3. On the CPU, each in memory of its own: safetensors writes no views of one storage.
    state: dict[str, Tensor] = {}
    memories: set[Any] = set()
    for name, place in expected.items():
        weight = live[name].detach()
        if weight.is_meta:
            raise CapabilityError(
                f"{name!r} of {model.name!r} is on no device now (offloaded): load the model with "
                "device=… to save it."
            )
        if weight.shape != place.shape:
            shapes = f"{list(weight.shape)}, not {list(place.shape)}"
            raise _unlike(model, f"the shape of its {name!r} is {shapes}")
        whole = weight.cpu().contiguous()
        memory = whole.untyped_storage()
        if memory.data_ptr() in memories or memory.nbytes() != whole.nbytes:
            whole = whole.clone()
        memories.add(whole.untyped_storage().data_ptr())
        state[name] = whole
    _check_tied(model, expected, state)
    return state


def _plain_name(name: str) -> str:
    return name.replace(f"{INSERTED}.", "")


def _memory(weight: Tensor) -> tuple[Any, ...]:
    """Where a weight lies: equal for two names of one weight."""
    if weight.is_meta:
        return (id(weight),)
    return weight.device, weight.data_ptr(), weight.numel()


def _check_tied(
    model: LensModel, expected: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> None:
    """Refuse weights that differ though the config says that they are one."""
    tied: dict[int, list[str]] = defaultdict(list)
    for name, place in expected.items():
        tied[id(place)].append(name)
    for first, *others in tied.values():
        for other in others:
            if not _same(state[first], state[other]):
                raise CapabilityError(
                    f"{first!r} and {other!r} of {model.name!r} differ, and its config ties them "
                    "(tie_word_embeddings), so that one would be lost: give them one weight, or "
                    "set the config's tie_word_embeddings to False, before saving."
                )


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two weights are equal bit for bit; NaN equals NaN."""
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def _joined(model: LensModel, module: nn.Module) -> tuple[dict[str, Tensor], set[Any]]:
    """The fused projections, joined from their parts, by name; and where the parts lie."""
    joined: dict[str, Tensor] = {}
    parts: set[Any] = set()
    for name, wrapper in module.named_modules():
        for split, names in SPLITS.items():
            if not hasattr(wrapper, split):
                continue
            held = [getattr(wrapper, part).original_component for part in names]
            path = f"{_plain_name(name)}."
            for parameter, weight in _fused(model, wrapper, getattr(wrapper, split), held):
                joined[path + parameter] = weight
            parts |= {_memory(weight) for part in held for weight in part.parameters()}
    return joined, parts


def _fused(
    model: LensModel, wrapper: Any, split: Any, held: list[nn.Module]
) -> Iterator[tuple[str, Tensor]]:
    """The weights of one fused projection, by the names that they have in the wrapped module.

    TransformerLens' function splits a copy whose entries are numbered; where each number comes out
    says where the entry is now, for any order in which an architecture keeps its heads.
    """
    original = wrapper.original_component
    # 1. A copy whose entries are 1, 2, 3, …: float64 holds them exactly.
    numbered = copy.deepcopy(original).to("cpu", torch.float64)
    places: dict[str, tuple[int, nn.Parameter]] = {}
    end = 1  # 0 is what a split adds where there was nothing
    for name, weight in numbered.named_parameters():
        ids = torch.arange(end, end + weight.numel(), dtype=torch.float64)
        weight.data = ids.reshape(weight.shape)
        places[_plain_name(name)] = end, weight
        end += weight.numel()
    # 2. Split as TransformerLens does: each part's number says which entry its value now is.
    flat = torch.zeros(end, dtype=model.dtype)
    known = torch.zeros(end, dtype=torch.bool)
    for numbered_part, live_part in zip(split(numbered), held, strict=True):
        ids_of = {name: weight.detach() for name, weight in _weights(numbered_part)}
        for name, weight in _weights(live_part):
            ids = ids_of[name].long()
            values = weight.detach().cpu()
            if bool(known[ids].any()) and not _same(flat[ids][known[ids]], values[known[ids]]):
                raise _unlike(model, f"two parts that are one there differ in {name!r}")
            flat[ids], known[ids] = values, True
    if bool(flat[0] != 0):
        raise _unlike(model, "a part of a fused projection has a bias that has no place there")
    # 3. Values back into the fused shape. Every entry of a weight has to be known, or none.
    for name, (start, weight) in places.items():
        entries = slice(start, start + weight.numel())
        if bool(known[entries].any()):
            if not bool(known[entries].all()):
                raise _unlike(model, f"parts of its {name!r} are nowhere")
            yield name, flat[entries].reshape(weight.shape)


def _weights(part: Any) -> Iterator[tuple[str, Tensor]]:
    for name in ("weight", "bias"):
        weight: Shaped[Tensor, "..."] | None = getattr(part, name, None)
        if weight is not None:
            yield name, weight


def _check(model: LensModel, clean: Any, state: Mapping[str, Tensor], folder: Path) -> None:
    """Read what was written, and compare weights and outputs."""
    kind, options = type(clean), _options(model, clean)
    with LOADING_LOCK:
        again, report = kind.from_pretrained(
            folder, output_loading_info=True, dtype=model.dtype, **options
        )
    lost = sorted(map(str, {*report["missing_keys"], *report["unexpected_keys"]}))
    read = again.state_dict()
    lost += [name for name in state if name not in read or not _same(read[name], state[name])]
    if lost:
        raise CorruptFileError(
            f"{kind.__name__} of {model.name!r} does not survive being written and read by "
            f"transformers: {lost[0]!r} ({len(lost)} in all) is not what it was. Keep its weights "
            "with save_weights(model, path)."
        )
    try:
        OwnForward.of(again.eval(), hidden=not _has_head(model)).check(model, load_model)
    except CapabilityError as unlike:
        raise _unlike(
            model,
            f"read again, it gives other numbers than the model does ({first_line(unlike, 200)})",
        ) from unlike


def _unlike(model: LensModel, problem: str) -> CapabilityError:
    return CapabilityError(
        f"{model.name!r} ({model.architecture}) cannot be put into Hugging Face's format: "
        f"{problem}. Keep its weights with save_weights(model, path)."
    )
