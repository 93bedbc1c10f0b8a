"""``load_model``: a :class:`.lens_model.LensModel` from a hub name, a folder or an object."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformer_lens.supported_models import MODEL_ALIASES, OFFICIAL_MODEL_NAMES
from transformers.utils import logging

from interp_compose._public import public
from interp_compose.checks import check_package
from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    InterpComposeError,
    OptionError,
    did_you_mean,
    first_line,
)
from interp_compose.hub_waits import told_once
from interp_compose.models.bridge import (
    BridgeModel,
    TransformerBridge,
    bridge_around,
    bridge_with_tokenizer,
    check_blocks,
    check_wrappable,
    has_two_stacks,
    hugging_face_model,
    refusing,
)
from interp_compose.models.bridge_encoder_decoder import BridgeEncoderDecoder, check_stacks
from interp_compose.models.enough_memory import check_loading
from interp_compose.models.generate import warn_of_kept_keys
from interp_compose.models.gguf_file import gguf_of, load_gguf
from interp_compose.models.hooked_transformer import HookedTransformerModel, is_hooked_transformer
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load_encoder import (
    encoder_around,
    encoder_on,
    is_encoder,
    load_encoder,
    peek,
)
from interp_compose.models.marian_file import marian_of
from interp_compose.models.marian_student import load_marian
from interp_compose.models.model_files import (
    check_places,
    check_sizes,
    refuse_pickled,
    saved_tokenizer,
)
from interp_compose.models.own_folder import kind_of_folder, load_own_model, own_model_around
from interp_compose.models.own_forward import OwnForward, small_random_model
from interp_compose.runs.checksums import SUMS, check_sums
from interp_compose.runs.folder import DONE
from interp_compose.shipped import SHIPPED, shipped_folder
from interp_compose.tensors import check_device

LOADING_LOCK = threading.RLock()
"""transformers builds models on a device that it sets for all threads."""
PLACED_BY_HF = ("auto", "balanced", "balanced_low_0", "sequential", "disk")
"""What a ``device_map`` may say instead of a device."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@public
def load_model(
    source: str | Path | nn.Module | LensModel,
    *,
    name: str | None = None,
    tokenizer: Any = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    device_map: str | dict[str, str | int] | None = None,
    trust_remote_code: bool = False,
) -> LensModel:
    """Any supported model with one interface, in evaluation mode where it is loaded here.

    Args:
        source: a hub name (``"gpt2"``), a folder in Hugging Face's format, a GGUF file or a folder
            with one, whose weights are dequantised (with the extra ``gguf``), a folder of a Marian
            student (a translator with a recurrent decoder, as Firefox has them), a shipped name
            (``"mini-base"``, ``"mini-idm"``), a Hugging Face causal language model, encoder (BERT,
            RoBERTa, with or without a masked-LM head; sentence-transformers folders) or
            encoder–decoder (T5, BART, Marian, mBART, …), a ``TransformerBridge``, a
            ``HookedTransformer`` (transformer-lens 3.9), or a ``SmallDecoder``, a
            ``SmallSeq2Seq``, a ``SmallEncoder`` or a folder of :func:`.own_folder.save_model`.
            Objects are wrapped in place and keep their device, dtype and training mode; a model
            that was loaded here is returned itself, with the ``name`` and ``tokenizer`` given.
        name: what tables, figures and comparisons call the model; by default the source's name, of
            an object without one its class.
        tokenizer: used as it is. By default of a decoder the one that TransformerLens loads with
            it, which prepends BOS where the model has one, of an encoder or encoder–decoder the one
            that was saved with it; of an object none.
        device: ``"auto"`` takes CUDA where there is one, else the CPU; ``"cpu"``, ``"cuda"``,
            ``"cuda:1"``, or another that this PyTorch has here, such as ``"mps"``. Not for objects.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"`` or a torch dtype; float32 by default,
            as in TransformerLens, whatever the checkpoint's own. Not for objects.
        revision: branch, tag or commit on the hub.
        device_map: handed to Hugging Face for models larger than one GPU: ``"auto"``, or devices
            by module. Every weight has to find room on a GPU; an encoder–decoder on one. Excludes
            ``device``, and needs accelerate (the extra ``processes``).
        trust_remote_code: runs Python from the hub. Needs a pinned ``revision``.

    Raises:
        OptionError: a name, dtype or combination that is not known.
        DeviceError: a device that is not there.
        CorruptFileError: a weight file that does not match its checksum, or was cut.
        CapabilityError: an architecture that TransformerLens refuses.
        MissingPackageError: a GGUF file, without the package that reads it; a ``device_map``
            without accelerate.
        NotEnoughMemoryError: weights that are converted need more than is free.
    """
    if name is not None:
        if not (name.strip() and name.isprintable()):
            raise OptionError(f"name={name!r}: expected a word or a few, such as 'GPT-2, tuned'")
        model = load_model(
            source,
            tokenizer=tokenizer,
            device=device,
            dtype=dtype,
            revision=revision,
            device_map=device_map,
            trust_remote_code=trust_remote_code,
        )
        model.name = name
        return model
    if isinstance(tokenizer, str | Path):
        raise OptionError(
            f"tokenizer={str(tokenizer)!r}: expected a tokenizer, not its name; pass "
            f"transformers.AutoTokenizer.from_pretrained({str(tokenizer)!r})"
        )
    if isinstance(source, str | Path):
        with LOADING_LOCK, told_once(), _no_bar() if source in SHIPPED else nullcontext():
            return _load_pretrained(
                str(source), tokenizer, device, dtype, revision, device_map, trust_remote_code
            )
    if trust_remote_code or (device, dtype, revision, device_map) != ("auto", None, None, None):
        raise OptionError(
            "device, dtype, revision, device_map and trust_remote_code are for names and folders; "
            f"the {type(source).__name__} passed keeps its own. Move or cast it before."
        )
    if isinstance(source, LensModel):
        source.tokenizer = source.tokenizer if tokenizer is None else tokenizer
        return source
    if (own_model := own_model_around(source, tokenizer)) is not None:
        return own_model
    if is_hooked_transformer(source):
        lens: Any = source
        tokenizer = tokenizer if tokenizer is not None else lens.tokenizer
        return HookedTransformerModel(lens, name=str(lens.cfg.model_name), tokenizer=tokenizer)
    if isinstance(source, TransformerBridge):
        if getattr(source, "_weights_processed", False):
            raise CapabilityError(
                f"the weights of this {source.cfg.architecture} bridge were folded and centred by "
                "enable_compatibility_mode(), so that residuals and weights are not those that "
                "training wrote; pass the Hugging Face model, or a bridge without that mode."
            )
        tokenizer = tokenizer if tokenizer is not None else source.tokenizer
        if is_encoder(getattr(source.original_model, "config", None)):
            return encoder_on(source, name=str(source.cfg.model_name), tokenizer=tokenizer)
        model = _model_on(source, name=str(source.cfg.model_name), tokenizer=tokenizer)
        _check_settings(source)
        return model
    if isinstance(source, nn.Module) and hasattr(source, "config"):
        check_wrappable(source)
        config: Any = source.config
        name = _name_of(source)
        if is_encoder(config):
            return encoder_around(source, name=name, tokenizer=tokenizer)
        try:
            reference = OwnForward.of(source)
        except CapabilityError:
            bridge_around(source)  # refuses, where TransformerLens does not know the class
            raise
        return _compared(reference, bridge_around(source), name=name, tokenizer=tokenizer)
    raise OptionError(
        f"cannot load a {type(source).__name__}: expected a hub name, a folder, a Hugging Face "
        "model, a TransformerBridge, a SmallDecoder, SmallSeq2Seq or SmallEncoder, or a "
        "HookedTransformer with transformer-lens 3.9."
    )


def _name_of(module: Any) -> str:
    """What an object is called: what it was loaded by, as far as its weights are still those.

    A config keeps the name that it was read with, whatever the weights are; transformers marks
    each weight that it has read, and PyTorch counts what is written into one.
    """
    kind, name = type(module).__name__, str(module.config.name_or_path or "")
    weights = list(module.parameters())
    n_read = sum(getattr(weight, "_is_hf_initialized", False) for weight in weights)
    if not name:
        return kind
    if not n_read:
        return f"{kind} by the config of {name}"
    is_as_read = n_read == len(weights) and not any(weight._version for weight in weights)
    return name if is_as_read else f"{name}, weights changed"


def _compared(
    reference: OwnForward, bridge: TransformerBridge, *, name: str, tokenizer: Any
) -> LensModel:
    """The wrapped module, after a check that it computes what the module itself did."""
    with refusing(bridge.original_model):
        model = _model_on(bridge, name=name, tokenizer=tokenizer)
        reference.check(model, load_model)
    warn_of_kept_keys(model)
    return model


def _model_on(bridge: TransformerBridge, *, name: str, tokenizer: Any) -> LensModel:
    if has_two_stacks(bridge.original_model):
        check_stacks(bridge)
        return BridgeEncoderDecoder(bridge, name=name, tokenizer=tokenizer)
    check_blocks(bridge)
    return BridgeModel(bridge, name=name, tokenizer=tokenizer)


def _check_settings(bridge: TransformerBridge) -> None:
    """Compare the class and config of a bridge that came wrapped with Hugging Face's formula.

    Its module cannot be run by itself any more; a small one of the same config is, see
    :func:`.own_forward.small_random_model`.
    """
    small = small_random_model(bridge.original_model)
    if small is not None:
        reference = OwnForward.of(small)
        _compared(reference, bridge_around(small), name=str(bridge.cfg.model_name), tokenizer=None)


def _load_pretrained(
    source: str,
    tokenizer: Any,
    device: str | torch.device,
    dtype: str | torch.dtype | None,
    revision: str | None,
    device_map: str | dict[str, str | int] | None,
    trust_remote_code: bool,
) -> LensModel:
    name = source
    if source in SHIPPED:
        source = str(shipped_folder(source))
    if trust_remote_code and Path(source).is_dir():
        raise OptionError(
            f"trust_remote_code=True runs Python that {source!r} names, maybe from the hub: read "
            "it, load the model with transformers, and pass the object"
        )
    if trust_remote_code and revision is None:
        raise OptionError(
            f"trust_remote_code=True runs Python from {source!r}: pin it with revision=<commit>, "
            "so that what you read is what runs."
        )
    if device_map is not None and device != "auto":
        raise OptionError(
            f"device={str(device)!r} and device_map={device_map!r} exclude each other"
        )
    if device_map is not None:
        check_package("accelerate", "processes")
    for one in device_map.values() if isinstance(device_map, dict) else [device_map or "auto"]:
        if one not in PLACED_BY_HF:
            check_device(one)
    options: dict[str, Any] = {"dtype": _dtype(dtype), "trust_remote_code": trust_remote_code}
    options |= {"device_map": device_map} if device_map is not None else {"device": _device(device)}
    if revision is not None:
        options["revision"] = revision
    folder = Path(source)
    student, file = marian_of(folder), gguf_of(folder)
    if (student or file) and (folder / SUMS).is_file():
        check_sums(folder / SUMS)
    if student is not None:
        for option in ("revision", "device_map"):
            if option in options:
                raise OptionError(f"{option} is Hugging Face's, and {name!r} a Marian file")
        return load_marian(
            student,
            name=student.parent.absolute().name,
            tokenizer=tokenizer,
            device=options["device"],
            dtype=options["dtype"],
        )
    if file is not None:
        if revision is not None or trust_remote_code:
            raise OptionError(f"revision and trust_remote_code are of the hub, and {name!r} a file")
        placed = {key: options[key] for key in ("device", "device_map") if key in options}
        hf_model, tokenizer, kinds = load_gguf(
            file, tokenizer=tokenizer, dtype=options["dtype"], **placed
        )
        reference = OwnForward.of(hf_model)
        model = _compared(reference, bridge_around(hf_model), name=file.stem, tokenizer=tokenizer)
        model.dequantised_from = kinds
        return model
    if folder.is_dir():
        if revision is not None:
            raise OptionError(
                f"revision={revision!r} is of the hub, and {name!r} is a folder here; leave it out"
            )
        kind = kind_of_folder(folder)
        if kind is not None:
            if device_map is not None:
                raise OptionError(
                    f"device_map={device_map!r} is Hugging Face's, and {name!r} a {kind.KIND}: "
                    "give device."
                )
            return load_own_model(
                kind,
                folder,
                name=name,
                tokenizer=tokenizer,
                device=_device(device),
                dtype=options["dtype"],
            )
        if (folder / DONE).is_file():
            raise OptionError(_is_a_run(folder))
        if (folder / SUMS).is_file():
            check_sums(folder / SUMS)
    else:
        meant = "" if "/" in source or folder.exists() else did_you_mean(source, SHIPPED)
        if meant:  # without a network, the hub would be tried for a minute
            raise OptionError(f"no model {name!r}{meant}")
    config = None
    try:
        config, stated = peek(source, revision, trust_remote_code=trust_remote_code)
        subfolder = stated.subfolder if stated else ""
        check_sizes(config, name)
        if device_map is None:  # else Hugging Face places weights, on disk if need be
            check_loading(config, name, options["device"], options["dtype"])
        refuse_pickled(source, config, subfolder=subfolder, revision=revision)
        if is_encoder(config):
            return load_encoder(
                source, config, stated, name=name, tokenizer=tokenizer, options=options
            )
        two_stacks = bool(getattr(config, "is_encoder_decoder", False))
        if isinstance(device_map, dict) and not two_stacks:
            check_places(config, name, device_map)
        hf_model = hugging_face_model(source, name=name, two_stacks=two_stacks, **options)
        check_wrappable(hf_model)
        reference = OwnForward.of(hf_model)
        rest = {key: options[key] for key in options if key not in ("device", "device_map")}
        if tokenizer is None:
            without_dtype = {key: rest[key] for key in rest if key != "dtype"}
            saved = saved_tokenizer(source, name, **without_dtype)
            if two_stacks:  # TransformerLens would have it begin texts otherwise
                tokenizer = saved
        if tokenizer is None:
            bridge = bridge_with_tokenizer(source, hf_model, **rest)
        else:
            bridge = bridge_around(hf_model)
    except (InterpComposeError, MemoryError, torch.OutOfMemoryError):
        raise
    except (OSError, ValueError) as refusal:
        raise _unreadable(name, folder, refusal, config) from refusal
    except SafetensorError as broken:
        raise CorruptFileError(
            f"the weights in {source!r} cannot be read ({broken}); download or save them again."
        ) from broken
    except Exception as broken:
        reason = (str(broken).strip().splitlines() or [""])[-1].strip()[:120]
        raise CorruptFileError(
            f"config and weights of {name!r} make no model that transformers and TransformerLens "
            f"can build ({type(broken).__name__}: {reason}); get the checkpoint again, or correct "
            "its config.json."
        ) from broken
    bridge.eval()
    tokenizer = tokenizer if tokenizer is not None else bridge.tokenizer
    model = _compared(reference, bridge, name=name, tokenizer=tokenizer)
    if isinstance(model, BridgeModel):
        model.states(stated)
    return model


@contextmanager
def _no_bar() -> Iterator[None]:
    """No progress bar of transformers: the weights are loaded in a moment."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _is_a_run(folder: Path) -> str:
    where = f"its model is in {folder / 'model'}"
    if not (folder / "model").is_dir():
        where = "it keeps no transformer"
    return f"{folder} is the folder of a finished run, not of a model; {where}"


def _unreadable(name: str, folder: Path, reason: Exception, config: Any) -> Exception:
    first = first_line(reason, 400)
    if "supported architecture" in first or "Unrecognized configuration class" in first:
        names = ", ".join(getattr(config, "architectures", None) or [type(config).__name__])
        return CapabilityError(
            f"TransformerLens does not know the architecture of {name!r} ({names}). The "
            "documentation lists what was tried; most causal language models work, of the encoders "
            "BERT and RoBERTa, of encoder–decoders T5, BART, Marian and mBART."
        )
    if "prompt learning" in first:  # peft's words
        return CapabilityError(
            f"{name!r} holds an adapter that learns a prompt or prefix, which goes before a text "
            "and into no weight, so that nothing here could read it: load its base model instead "
            "(base_model_name_or_path in adapter_config.json)."
        )
    if folder.is_dir():
        return CorruptFileError(
            f"the folder {name!r} does not hold a model and its tokenizer in Hugging Face's "
            f"format: {first}"
        )
    return OptionError(
        f"no model {name!r}: it is not a folder here, not shipped ({', '.join(SHIPPED)}), and the "
        f"hub did not give it ({first}). Check the name, the network, or pass a folder"
        f"{_known_name(name) or '.'}"
    )


def _known_name(name: str) -> str:
    """A question, "; did you mean 'gpt2'?": the hub's name of a model whose name or alias in
    TransformerLens is near."""
    known = {alias: hub for hub, aliases in MODEL_ALIASES.items() for alias in aliases}
    known |= {hub: hub for hub in OFFICIAL_MODEL_NAMES}
    near = [known[alias] for alias in get_close_matches(name, known, 1, cutoff=0.75)]
    return f"; did you mean {near[0]!r}?" if near and near != [name] else ""


def _device(device: str | torch.device) -> str:
    if str(device) == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    check_device(device)
    return str(device)


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    if dtype is None:
        return torch.float32
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point:
        return dtype
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    raise OptionError(f"unknown dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
