"""Generation, under every intervention, by Hugging Face's own ``generate``.

Where nothing acts on a model that Hugging Face wrote, its ``generate`` runs on the wrapped module,
with a cache of keys and values, if a few tokens prove that this gives the model's own logits. In
every other case the same ``generate`` is handed the model as a function: each token comes from a
call of the whole model on all tokens so far, so that interventions act exactly as they do on a call
of their own. What names positions then means those of the prompt (:func:`prompt_of`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from inspect import signature
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterpComposeError,
    OptionError,
    PromptError,
    first_line,
    warn,
)
from interp_compose.models.base import BaseModel
from interp_compose.models.hooks import in_evaluation_mode
from interp_compose.models.outcomes import Outcome, compared, guarded
from interp_compose.models.texts import output_tokenizer, texts_of
from interp_compose.types import Inputs

INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("inputs", "input_ids"), "pass texts or token ids first"),
    **dict.fromkeys(("inputs_embeds", "past_key_values"), "pass texts or token ids"),
    "max_length": "pass max_new_tokens",
    "synced_gpus": "the model runs in one process; leave it out",
    **dict.fromkeys(
        ("assistant_model", "prompt_lookup_num_tokens", "custom_generate", "token_healing"),
        "it does not call the model token by token; leave it out",
    ),
    **dict.fromkeys(
        ("guidance_scale", "negative_prompt_ids", "negative_prompt_attention_mask"),
        "it calls the model on other prompts, on which no intervention could act; leave it out",
    ),
}
"""Options of Hugging Face's that are refused, and what to do."""
READ_BY_CALLS: Final = ("output_attentions", "output_hidden_states")


@dataclass(frozen=True)
class GrowingPrompt:
    """The prompt of the texts that a generation has grown so far.

    Attributes:
        tokens: as a call has them.
        mask: 1 at them, 0 at padding.
    """

    tokens: Int[Tensor, "row pos"]
    mask: Int[Tensor, "row pos"]

    def grown(
        self, of_prompt: Shaped[Tensor, "row pos"], shape: tuple[int, int], fill: Any
    ) -> Shaped[Tensor, "batch grown"]:
        """What is true of the prompt's positions, for a call of ``shape``: a row for each beam or
        sample of a prompt, side by side, and ``fill`` at new tokens."""
        rows, length = shape
        # [prompt pos] -> [row pos]: a prompt's beams are next to one another -> [row grown]
        of_row = of_prompt.repeat_interleave(rows // len(of_prompt), dim=0)
        return torch.nn.functional.pad(of_row, (0, length - of_prompt.shape[1]), value=fill)


_PROMPTS: WeakKeyDictionary[Any, GrowingPrompt] = WeakKeyDictionary()
_CACHES: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""By ``lens``, which several objects may wrap."""
_WARNED: set[str] = set()


def prompt_of(model: BaseModel) -> GrowingPrompt | None:
    """The prompt, while a call of a generation is running; None in a call of its own."""
    return _PROMPTS.get(model.lens)


@contextmanager
def growing(model: BaseModel, prompt: GrowingPrompt) -> Iterator[None]:
    """Calls go on from ``prompt`` for the length of a ``with`` block."""
    outer = _PROMPTS.get(model.lens)
    _PROMPTS[model.lens] = prompt
    try:
        yield
    finally:
        if outer is None:
            del _PROMPTS[model.lens]
        else:
            _PROMPTS[model.lens] = outer


def generated(
    model: BaseModel,
    inputs: Inputs,
    tokens: Int[Tensor, "batch pos"],
    mask: Int[Tensor, "batch pos"],
    max_new_tokens: int | None,
    options: Mapping[str, Any],
) -> Any:
    """See :meth:`LensModel.generate`; ``tokens`` and ``mask`` are the checked ``inputs``."""
    from transformers import GenerationMixin

    # 1. How many tokens: an option goes before the config that is passed, and that before 10.
    stated = vars(options["generation_config"]) if options.get("generation_config") else {}
    stated = {name: value for name, value in stated.items() if value is not None}
    if max_new_tokens is None:
        max_new_tokens = int(stated.get("max_new_tokens", 0 if "max_length" in stated else 10))
    if max_new_tokens:
        stated.pop("max_length", None)  # Hugging Face gives way to max_new_tokens as well
    _check(model, tokens, mask, max_new_tokens, {**stated, **options})
    # 2. All but the last new token are read again, so that this many find room.
    prompt = GrowingPrompt(tokens, mask)
    given, real = _seen_by_hugging_face(model, prompt)
    limit = model.n_ctx - int(real.sum(dim=1).max()) + 1
    if max_new_tokens > limit:
        raise PromptError(
            f"max_new_tokens={max_new_tokens}: {model.name!r} reads {model.n_ctx} tokens, so that "
            f"at most {max(limit, 0)} can follow this prompt; ask for fewer, or shorten it."
        )
    config, arguments = _config(model, {**options, "max_new_tokens": max_new_tokens})
    # What Hugging Face's generate takes with its config.
    taken = {*signature(GenerationMixin.generate).parameters, "tokenizer"} - {"kwargs"}
    for name in arguments.keys() - taken:
        raise OptionError(
            f"generate({name}=…) is no option of generation, and what goes to the model's forward "
            "pass, such as positions, is made anew for every token; leave it out."
        )
    # 3. The wrapped module with a cache, where nothing acts; else the model, call by call.
    with model.open_blocks.held(), in_evaluation_mode(model.lens):
        caches = (
            not model.open_blocks.active
            and options.get("use_cache") is not False
            and has_cache(model)
        )
        if caches:
            module = model.lens.original_model
        else:
            _check_without_cache(model, config, options)
            module = _as_function(model, prompt, given.shape[1])
            config.use_cache = False
        # Hugging Face would fill in the module's own for every None of the config's.
        module_config, module.generation_config = module.generation_config, type(config)()
        try:
            out = module.generate(
                given, generation_config=config, attention_mask=real.long(), **arguments
            )
        except InterpComposeError:
            raise
        except (ValueError, ImportError, AssertionError, ZeroDivisionError) as refusal:
            if not caches and module.was_called:
                raise  # a hook's own
            shown = ", ".join(f"{name}={value!r:.40}" for name, value in options.items()) or "this"
            raise OptionError(
                f"Hugging Face's generate refuses {shown}: {first_line(refusal, 300)}"
            ) from refusal
        finally:
            module.generation_config = module_config
    if isinstance(inputs, Tensor) or not isinstance(out, Tensor):
        return out
    texts = _texts(model, prompt, out, given.shape[1], config)
    return texts[0] if isinstance(inputs, str) and len(texts) == 1 else texts


def has_cache(model: BaseModel) -> bool:
    """Whether the wrapped Hugging Face model generates, and by its cache gives the logits of calls
    of the model; tried once on a few tokens, one row padded on the left."""
    module = getattr(model.lens, "original_model", None)
    if not hasattr(module, "generate") or len(model.stacks) > 1 or model.length_limit is not None:
        return False
    if model.lens not in _CACHES:
        with model.bare(), torch.no_grad():
            _CACHES[model.lens] = guarded(partial(_compared, model, module)).status == "holds"
    return _CACHES[model.lens]


@torch.no_grad()
def keeps_and_goes_on(model: BaseModel) -> Outcome:
    """Whether generation that keeps keys and values gives the logits of generation that does not,
    as ``model.lens`` offers both or, of an encoder–decoder, the module that it wraps."""
    two_stacks = len(model.stacks) > 1
    lens: Any = getattr(model.lens, "original_model", None) if two_stacks else model.lens
    if model.bidirectional or not hasattr(lens, "generate"):
        return Outcome("not tried", "model.lens generates nothing")
    generator = torch.Generator().manual_seed(0)
    length = max(1, min(4, model.n_ctx - 2))
    tokens = torch.randint(model.d_vocab_source, (1, length), generator=generator).to(model.device)

    def generated(new: int, *, keeps: bool, **options: Any) -> Any:
        options |= {"do_sample": False, "max_new_tokens": new, "output_logits": True}
        if two_stacks:
            options |= {"attention_mask": torch.ones_like(tokens), "use_cache": keeps}
            options |= {"min_new_tokens": new, "num_beams": 1, "return_dict_in_generate": True}
            return lens.generate(tokens, **options)
        options |= {"use_past_kv_cache": keeps, "stop_at_eos": False, "verbose": False}
        return lens.generate(options.pop("decoder_input_ids", tokens), **options)

    def second_token() -> Outcome:
        # The logits of the second new token: by what was kept of all before it, and all anew.
        kept = generated(2, keeps=True)
        whole = generated(1, keeps=False, decoder_input_ids=kept.sequences[:, :-1])
        return compared(model, kept.logits[-1], whole.logits[-1])

    with model.bare(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of what TransformerLens passes on
        return guarded(second_token)


def warn_of_kept_keys(model: BaseModel) -> None:
    """Say, once for each architecture, that generation with kept keys and values is wrong: it is
    reached through ``model.lens`` and the wrapped module, past this library's own checks. Weights
    have no part in it, so that models of one config are tried once."""
    config: Any = getattr(getattr(model.lens, "original_model", None), "config", None)
    kind = f"{model.architecture} {config and config.to_dict()}"
    if kind in _WARNED:
        return
    _WARNED.add(kind)
    outcome = keeps_and_goes_on(model)
    if outcome.status == "wrong" and model.architecture not in _WARNED:
        _WARNED.add(model.architecture)
        versions = [f"{name} {version(name)}" for name in ("transformer-lens", "transformers")]
        wrong = "generate of the wrapped module" if len(model.stacks) > 1 else "model.lens.generate"
        warn(
            f"With {' and '.join(versions)}, {wrong} of {model.architecture} is wrong where it "
            f"keeps keys and values ({outcome.detail}), and so may be whatever hands a cache to "
            "model.lens. model.generate(…) and all else in this library is right; so is theirs "
            "with use_past_kv_cache=False (Hugging Face's: use_cache=False), or with the versions "
            "that interp-compose requires."
        )


def _compared(model: BaseModel, module: Any) -> Outcome:
    """The logits of a generation with a cache, with those of calls on the same tokens."""
    length, new = min(5, model.n_ctx - 4), 4
    tokens = model.random_tokens(2, length, torch.Generator().manual_seed(0)).to(model.device)
    mask = torch.ones_like(tokens)
    mask[1, : length // 2] = 0
    greedy = {"do_sample": False, "num_beams": 1, "max_new_tokens": new, "use_cache": True}
    kept = {"return_dict_in_generate": True, "output_logits": True}
    config, arguments = _config(model, {**greedy, **kept})
    out = module.generate(tokens, generation_config=config, attention_mask=mask, **arguments)
    called = []
    for step in range(len(out.logits)):
        grown = out.sequences[:, : length + step]
        real = torch.nn.functional.pad(mask, (0, step), value=1)
        # [row d_vocab]: what follows the tokens before this step, in a call without a cache
        called.append(model.forward(grown, attention_mask=real, read="last")[:, -1])
    return compared(model, torch.stack(out.logits), torch.stack(called))


def _as_function(model: BaseModel, prompt: GrowingPrompt, n_given: int) -> Any:
    from interp_compose.models.hugging_face_generation import ModelAsFunction

    shift = model.d_vocab_source if len(model.stacks) > 1 else 0

    def last_logits(new: Tensor) -> Tensor:
        n_prompt = prompt.tokens.shape[1]
        shape = (len(new), n_prompt + new.shape[1])
        tokens, mask = (prompt.grown(one, shape, 1) for one in (prompt.tokens, prompt.mask))
        tokens[:, n_prompt:] = new + shift  # ids of target tokens come after the source vocabulary
        with growing(model, prompt):
            return model.forward(tokens, attention_mask=mask, read="last")

    return ModelAsFunction(
        last_logits, n_given, d_vocab=model.d_vocab, device=model.device, dtype=model.dtype
    )


def _seen_by_hugging_face(
    model: BaseModel, prompt: GrowingPrompt
) -> tuple[Int[Tensor, "batch given"], Bool[Tensor, "batch given"]]:
    """What new tokens are appended to, and where it is real: of an encoder–decoder, the target."""
    real = prompt.mask.bool()
    if len(model.stacks) == 1:
        return prompt.tokens, real
    real &= model.predicts(prompt.tokens)
    # [row pos] -> [row given]: from the first column that holds a target token in any row; what
    # is padding or source there has the id 0.
    first = int(real.any(dim=0).nonzero()[0])
    given = (prompt.tokens - model.d_vocab_source) * real
    return given[:, first:], real[:, first:]


def _check(
    model: BaseModel,
    tokens: Int[Tensor, "batch pos"],
    mask: Int[Tensor, "batch pos"],
    max_new_tokens: int,
    options: Mapping[str, Any],
) -> None:
    if model.bidirectional:
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) is an encoder and predicts no next token; load "
            "a decoder or an encoder–decoder to generate."
        )
    for name in options:
        if name in INSTEAD:
            raise OptionError(f"generate({name}=…) is not supported: {INSTEAD[name]}.")
    if max_new_tokens < 1:
        raise OptionError(f"max_new_tokens={max_new_tokens}: expected 1 or more")
    at_end = (mask[:, -1] == 0) | ~model.predicts(tokens)[:, -1]
    if bool(at_end.any()):
        raise InputError(
            f"row {int(at_end.nonzero()[0])} ends in padding, or in a source token, from which "
            "nothing can go on: pad on the left, as model.tokenize does."
        )


def _check_without_cache(model: BaseModel, config: Any, options: Mapping[str, Any]) -> None:
    acting = model.open_blocks.active
    why = f"{', '.join(acting[:3])} act" if acting else "this model has no cache"
    for name in READ_BY_CALLS:
        if getattr(config, name):
            raise OptionError(
                f"generate({name}=True) cannot be had here ({why}): run model.run_with_cache on "
                "the tokens that are returned."
            )
    defaults = {"encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1.0}
    for name in defaults if len(model.stacks) > 1 else ():
        if getattr(config, name) not in (None, defaults[name]):
            raise OptionError(
                f"generate({name}=…) reads the source, which cannot be had here: pass "
                f"{name}={defaults[name]}."
            )
    if options.get("use_cache") or options.get("cache_implementation"):
        raise OptionError(
            f"generate(use_cache=True) cannot be had here: {why}, and every token comes from a "
            "call on all tokens so far; leave it out."
        )


def _config(model: BaseModel, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Hugging Face's generation config, and the options that go with it. As of its ``generate``,
    an option, be it None, goes before the config that is passed, and what that leaves None is as
    the model's own config states."""
    from transformers import GenerationConfig

    # 1. The config that is passed, filled up from the model's own, under the other options.
    updates = dict(options)
    config = deepcopy(updates.pop("generation_config", None)) or GenerationConfig()
    stated = getattr(getattr(model.lens, "original_model", None), "generation_config", None)
    if stated is not None:
        config.update(**stated.to_dict(), defaults_only=True, allow_custom_entries=True)
    arguments: dict[str, Any] = config.update(**updates)
    config.max_length = None
    config.forced_bos_token_id = config.decoder_start_token_id = None  # the prompt begins with them
    # 2. Where a text ends, and what fills the rows that end first: any id that the model has.
    tokenizer = None if model.tokenizer is None else output_tokenizer(model)
    if config.eos_token_id is None and "eos_token_id" not in options:
        config.eos_token_id = getattr(tokenizer, "eos_token_id", None)
    eos = config.eos_token_id
    of_rows = (config.pad_token_id, getattr(tokenizer, "pad_token_id", None))
    ids = (*of_rows, *(eos if isinstance(eos, list | tuple) else [eos]))
    config.pad_token_id = next(
        (one for one in ids if isinstance(one, int) and 0 <= one < model.d_vocab), 0
    )
    if config.stop_strings is not None:
        arguments.setdefault("tokenizer", tokenizer)
    return config, arguments


def _texts(
    model: BaseModel,
    prompt: GrowingPrompt,
    out: Int[Tensor, "row grown"],
    n_given: int,
    config: Any,
) -> list[str]:
    """Decoders' texts with their prompts, encoder–decoders' targets, each up to its end."""
    eos = config.eos_token_id
    ends = set(eos if isinstance(eos, list | tuple) else [eos])
    rows = []
    for number, row in enumerate(out):
        new = row[n_given:].tolist()
        end = next((index for index, token in enumerate(new) if token in ends), len(new))
        prompt_ids: list[int] = []
        if len(model.stacks) == 1:
            of_prompt = number * len(prompt.tokens) // len(out)  # a prompt's rows are side by side
            prompt_ids = prompt.tokens[of_prompt][prompt.mask[of_prompt].bool()].tolist()
        rows.append(torch.tensor(prompt_ids + new[:end], dtype=torch.long))
    return texts_of(model, rows)
