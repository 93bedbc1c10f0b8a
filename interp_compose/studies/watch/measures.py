"""What a watcher can measure: of weights, of prompts, of judged pairs.

Each is planned before training, which refuses what could only fail, and then looked at with the
weights of the moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from interp_compose.errors import InterventionError, NonFiniteError, warn
from interp_compose.interventions.leak import attention_leak
from interp_compose.models.layers import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import fitting_batch
from interp_compose.models.ready import check_one_stack
from interp_compose.models.weight_matrices import IN_BLOCKS, WeightMatrix, weight_matrices
from interp_compose.probes.condensation import mean_abs_cosine
from interp_compose.probes.rank import effective_rank, frobenius, spectral_entropy, stable_rank
from interp_compose.probes.rank_tracker import StableRankTracker
from interp_compose.stats.intervals import wilson_interval
from interp_compose.studies.cap.measure import prepare_cap
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.core.inputs import (
    PreparedExample,
    PromptBatch,
    check_decoder,
    examples_digest,
    into_batches,
    prepare,
)
from interp_compose.studies.core.options import PromptOptions
from interp_compose.studies.core.study import measured
from interp_compose.studies.similarity.measure import prepare_similarity
from interp_compose.studies.similarity.options import SimilarityOptions
from interp_compose.studies.similarity.result import ALL
from interp_compose.studies.watch.options import WatchOptions
from interp_compose.tasks.rows import rows_in

EXACT: Final = 128
"""Smaller side up to which all eigenvalues cost no more than two looks."""
OF_WEIGHTS: Final = {
    "stable_rank": None,  # followed from look to look
    "frobenius_norm": lambda weight: frobenius(weight.float()),
    "effective_rank": effective_rank,
    "spectral_entropy": spectral_entropy,
    "mean_abs_cosine": mean_abs_cosine,
}
OF_EXAMPLES: Final = ("cap", "attention_leak")
OF_PAIRS: Final = ("agreement",)
NOTHING: Final = "changed nothing"
"""What a row is of whose intervention changed nothing."""
CLEAN: Final = -1
"""The layer of what is measured without an intervention."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Measurement:
    """A measure whose input has been checked."""

    metadata: Mapping[str, Any]
    """What a file of rows says of it, in JSON's types."""
    look: Callable[[LensModel], list[Row]]


def planned(model: LensModel, options: WatchOptions) -> list[Measurement]:
    """What is to be measured at each look of ``model``, which is in evaluation mode.

    Raises:
        InputError, CapabilityError, InterventionError: as the studies that are asked raise them,
            before they work.
    """
    measurements = []
    of_weights = [name for name in options.measures if name in OF_WEIGHTS]
    if of_weights:
        matrices = tuple(IN_BLOCKS if options.matrices is None else options.matrices)
        next(iter(weight_matrices(model, matrices)))
        look = _Weights(of_weights, matrices)
        measurements.append(Measurement({"matrices": list(matrices)}, look))
    for name, plan_measure in (("cap", _cap), ("attention_leak", _leak), ("agreement", _agreement)):
        if name in options.measures:
            measurement = plan_measure(model, options)
            measurements.append(replace(measurement, look=_or_nothing(name, measurement.look)))
    return measurements


def _or_nothing(name: str, look: Callable[[LensModel], list[Row]]) -> Callable[..., list[Row]]:
    """The same look; where its intervention changes nothing, as in a model whose vectors are all
    alike, a warning and a row without a number, so that training goes on."""

    def look_or_nothing(model: LensModel) -> list[Row]:
        try:
            return look(model)
        except InterventionError as nothing:
            warn(f"{nothing}; this look has no number of {name!r}")
            return [_row(name, CLEAN, NOTHING, math.nan, 0)]

    return look_or_nothing


def _row(measure: str, layer: int, of: str, value: float, n: int, **ends: float) -> Row:
    """``n`` is how many matrices, examples or pairs the value is of."""
    return {"measure": measure, "layer": layer, "of": of, "value": float(value), "n": n} | {
        end: float(ends.get(end, "nan")) for end in ("low", "high")
    }


class _Weights:
    """Weight matrices; stable ranks of large ones go on from where the last look ended."""

    def __init__(self, names: Sequence[str], matrices: tuple[str, ...]) -> None:
        self._names, self._matrices = names, matrices
        self._followed: dict[tuple[int, str], StableRankTracker] = {}

    def __call__(self, model: LensModel) -> list[Row]:
        rows = []
        for matrix in weight_matrices(model, self._matrices):
            try:
                for name in self._names:
                    function = OF_WEIGHTS[name]
                    value = function(matrix.weight) if function else self._stable_rank(matrix)
                    rows.append(_row(name, matrix.layer, matrix.name, float(value), 1))
            except NonFiniteError as broken:
                raise NonFiniteError(f"layer {matrix.layer}, {matrix.name}: {broken}") from broken
        return rows

    def _stable_rank(self, matrix: WeightMatrix) -> float:
        if min(matrix.weight.shape) <= EXACT:
            return float(stable_rank(matrix.weight))
        place = (matrix.layer, matrix.name)
        if place not in self._followed:
            self._followed[place] = StableRankTracker()
        return self._followed[place].update(matrix.weight)


def _cap(model: LensModel, options: WatchOptions) -> Measurement:
    """Accuracy after pooling at each layer (CARMA, section 5.1), and without pooling."""
    prepared = prepare_cap(
        model,
        rows_in(options.examples or ()),
        CapOptions(
            layers=options.layers, unit=options.unit, pooling=options.pooling, controls=False
        ),
        within=True,
    )

    def look(model: LensModel) -> list[Row]:
        curve = measured(replace(prepared, model=model), progress=False)
        right, n = int(curve.clean["correct"].sum()), len(curve.clean)
        low, high = (float(end) for end in wilson_interval(right, n))
        rows = [_row("cap", CLEAN, "no pooling", right / n, n, low=low, high=high)]
        for cell in curve.frame.to_dict("records"):
            ends = {"low": cell["ci_low"], "high": cell["ci_high"]}
            rows.append(
                _row("cap", cell["layer"], cell["pooling"], cell["accuracy"], cell["n"], **ends)
            )
        return rows

    names = ("layers", "unit", "pooling", "examples_sha256")
    return Measurement({name: prepared.config[name] for name in names}, look)


def _leak(model: LensModel, options: WatchOptions) -> Measurement:
    """What tokens after a unit still know of it, attention to it knocked out from a layer on.

    Of all positions after the first unit of several tokens and in none: the share whose most
    likely token changes when the tokens of those units are replaced by others
    (:func:`.leak.attention_leak`), with attention to them knocked out in layers ℓ, ℓ + 1, …: what
    had left them below layer ℓ. Beside it the same without a knockout.
    """
    check_decoder(model, "measure its agreement with people")
    check_one_stack(model, "attention_leak of a watcher")
    layers = resolve_layers(options.layers, model.n_layers)
    examples, prompts = rows_in(options.examples or ()), PromptOptions(unit=options.unit)
    items, _ = prepare(model, examples, prompts, answered=False, within=True)
    model.require("causal", "mask_attention")
    units = [item for item in items if _keys(item).any()]
    if not units:
        raise InterventionError(
            f"none of the {len(items)} examples has a {options.unit} of several tokens, to which "
            "attention could be knocked out; choose larger units, or other examples."
        )
    longest = max(item.n_tokens for item in units)
    size = fitting_batch(model, 1, longest)
    metadata = {"layers": layers, "unit": options.unit, "examples_sha256": examples_digest(items)}
    batches = into_batches(units, size, lambda item: (item.n_tokens, item.index))
    return Measurement(metadata, partial(_leaks, batches=batches, layers=layers, n=len(units)))


def _keys(item: PreparedExample) -> np.ndarray:
    """True at the tokens of units of several tokens."""
    groups = np.asarray(item.prompt.groups)
    sizes = np.bincount(groups[groups >= 0])
    return np.array([group >= 0 and sizes[group] > 1 for group in groups.tolist()])


def _leaks(
    model: LensModel, *, batches: Sequence[Sequence[PreparedExample]], layers: Sequence[int], n: int
) -> list[Row]:
    cells = [(CLEAN, "no knockout"), *((layer, "knocked out") for layer in layers)]
    sums, positions = dict.fromkeys(cells, 0.0), 0
    for items in batches:
        batch = PromptBatch.of([item.prompt for item in items], model.device)
        keys = torch.zeros_like(batch.mask, dtype=torch.bool)
        for row, item in enumerate(items):
            keys[row, -item.n_tokens :] = torch.from_numpy(_keys(item)).to(model.device)
        is_after = batch.mask.bool() & ~keys & (keys.cumsum(dim=1) > 0)
        weight = int(is_after.sum())
        positions += weight
        for place, layer in enumerate(layers):
            leak = attention_leak(
                model,
                batch.tokens,
                keys=keys,
                attention_mask=batch.mask,
                layers=list(range(layer, model.n_layers)),
            )
            sums[layer, "knocked out"] += weight * leak.changed
            if place == 0:
                sums[CLEAN, "no knockout"] += weight * leak.unmasked_changed
    return [
        _row("attention_leak", layer, of, total / positions, n)
        for (layer, of), total in sums.items()
    ]


def _agreement(model: LensModel, options: WatchOptions) -> Measurement:
    """Correlation of cosines with people's judgements, texts pooled at each layer and clean."""
    prepared = prepare_similarity(
        model,
        rows_in(options.pairs or ()),
        SimilarityOptions(layers=options.layers, pooling=options.pooling, controls=False),
    )

    def look(model: LensModel) -> list[Row]:
        curve = measured(replace(prepared, model=model), progress=False)
        frame = curve.frame[curve.frame["subset"] == ALL]
        rows = []
        for metric in curve.metrics:
            first = frame.iloc[0]
            ends = {end: first[f"clean_{metric}_{end}"] for end in ("low", "high")}
            of, n = f"{metric}, no pooling", int(first["n"])
            rows.append(_row("agreement", CLEAN, of, first[f"clean_{metric}"], n, **ends))
            for cell in frame.to_dict("records"):
                ends = {end: cell[f"{metric}_{end}"] for end in ("low", "high")}
                of = f"{metric}, {cell['pooling']}"
                rows.append(_row("agreement", cell["layer"], of, cell[metric], cell["n"], **ends))
        return rows

    names = ("layers", "pooling", "kind", "pairs_sha256")
    return Measurement({name: prepared.config[name] for name in names}, look)
