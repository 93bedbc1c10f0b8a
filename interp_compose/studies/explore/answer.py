"""What the model answers to a state: numbers, the curve, and the code that repeats them.

:func:`answer` and :func:`curve` are functions of a model and a state alone; :func:`respond` puts
them, or what speaks against the state, into a message to the page.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import torch

from interp_compose.errors import InterpComposeError, OptionError, first_line
from interp_compose.interventions.pooling import HOW
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.layers import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.explore.code import python_of
from interp_compose.studies.explore.cosines import TwoTexts
from interp_compose.studies.explore.next_tokens import CONTROLS, POOLINGS, NextTokens
from interp_compose.studies.explore.state import ExplorerState
from interp_compose.studies.explore.words import POOLS, ClickedText

CAN: Final = {
    "pool": POOLS,
    "words": ("mask_attention",),
    "heads": ("edit_z",),
}
"""Acts, and the capabilities that each relies on."""
PART: Final = 0.5
"""Seconds that a part of the curve may take, between which the page shows how far it is and may ask
for something else."""
N_WAYS: Final = len(POOLINGS) + len(CONTROLS)


def kind_of(model: LensModel) -> str:
    """Which of three kinds of page the model has."""
    if isinstance(model, EncoderDecoderModel):
        return "encoder-decoder"
    return "encoder" if model.bidirectional else "decoder"


def about(model: LensModel) -> dict[str, Any]:
    """What the page says of the model; acts that it cannot do are absent from the page."""
    needed = [name for names in CAN.values() for name in names]
    probes = model.capabilities.proven(needed)  # in one go
    can = {act: all(probes[name].held for name in names) for act, names in CAN.items()}
    kind = kind_of(model)
    encoder = model.n_encoder_layers if isinstance(model, EncoderDecoderModel) else 0
    return {
        "model": model.name,
        "kind": kind,
        "n_layers": model.n_layers,
        "n_encoder_layers": encoder,
        "n_heads": model.n_heads,
        "poolings": list(HOW),
        "can": {**can, "transplant": can["pool"] and kind == "decoder"},
    }


@torch.no_grad()
def answer(model: LensModel, state: ExplorerState) -> dict[str, Any]:
    """Everything but the curve.

    Returns:
        ``words`` and, with a second text, ``second_words``; ``numbers``, rows of a name, its value
        of the clean model, its value now and how many digits to show; ``top``, tokens with their
        probabilities now; ``flat``, the value with all that was chosen but pooling; ``step``, of
        how many layers the page may ask for at a time; ``python``; ``state``, with the units filled
        in.

    Raises:
        InputError, InterventionError, CapabilityError: what speaks against the state.
    """
    begin = time.perf_counter()
    run = _prepared(model, state)
    values = run.values()
    seconds = (time.perf_counter() - begin) / 4  # a call, roughly: of those made so far
    texts = run.texts if isinstance(run, TwoTexts) else (run.text, run.second)
    return {
        **values,
        "step": max(1, round(PART / (seconds * N_WAYS))),
        "words": texts[0].as_json(),
        "second_words": [] if texts[1] is None else texts[1].as_json(),
        "python": python_of(run),
        "state": run.state.as_json(),
    }


@torch.no_grad()
def curve(
    model: LensModel, state: ExplorerState, layers: Sequence[int] | None = None
) -> pd.DataFrame:
    """The value at each of ``layers`` (None: all) after each pooling and each control.

    Returns:
        Columns layer, pooling, value: log P of the answer in nats, or an encoder's cosine; of a
        transplant, the column pooling names the vector in the phrase's place. No rows where nothing
        is pooled.
    """
    return _prepared(model, state).curve(resolve_layers(layers, model.n_layers))


def _prepared(model: LensModel, state: ExplorerState) -> NextTokens | TwoTexts:
    text = ClickedText.of(model, state.text)
    if model.bidirectional:
        return TwoTexts.of(model, state, text, ClickedText.of(model, state.second))
    second = ClickedText.of(model, state.second) if state.second.strip() else None
    return NextTokens.of(model, state, text, second)


def respond(model: LensModel, request: Any) -> dict[str, Any]:
    """The message that answers the page's: ``values`` or ``curve``; or ``refused``, or ``failed``,
    with what to say, and with the words where the text can be read."""
    given: Mapping[str, Any] = {}
    try:
        if not isinstance(request, Mapping) or not isinstance(request.get("state"), Mapping):
            raise OptionError(f"the page sent {request!r}: expected a state by the name state")
        given = request["state"]
        state = ExplorerState.from_json(given)
        if request.get("part") == "curve":
            frame = curve(model, state, [int(layer) for layer in request["layers"]])
            return {"curve": frame.to_dict("split", index=False)["data"]}
        return {"values": answer(model, state)}
    except InterpComposeError as refusal:
        return {"refused": str(refusal), **_words_of(model, given)}
    except KeyboardInterrupt:
        return {"failed": "Interrupted: what is shown is not of this choice."}
    except Exception as error:  # noqa: BLE001  # the page says so, whatever it is
        kind = type(error).__name__
        return {"failed": f"The model failed, {kind}: {first_line(error)}"}


def _words_of(model: LensModel, given: Mapping[str, Any]) -> dict[str, Any]:
    words: dict[str, Any] = {}
    for name, key in (("text", "words"), ("second", "second_words")):
        try:
            words[key] = ClickedText.of(model, str(given.get(name, ""))).as_json()
        except InterpComposeError:
            continue
    return words
