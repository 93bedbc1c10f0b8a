"""``cap_curve``: measure what pooling at each layer leaves of a model's accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pandas as pd
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.checks import check_numbers
from interp_compose.errors import (
    CorruptFileError,
    InputError,
    InterventionError,
    MissingDataError,
    OptionError,
    warn,
)
from interp_compose.interventions.control_spans import (
    n_moved,
    n_several,
    on_sides,
    shuffled_groups,
    straddled_groups,
)
from interp_compose.interventions.pool_at import check_renumbered, needs
from interp_compose.interventions.pooling import (
    How,
    OwnPooling,
    own_poolings,
    poolings_of,
)
from interp_compose.interventions.pooling_sweep import sweep, with_controls, with_layouts
from interp_compose.interventions.streams import capture_kept, resumed
from interp_compose.models.base import Streams
from interp_compose.models.enough_memory import (
    MOST_OF_FREE,
    Shape,
    free_bytes,
    least_bytes,
    sweep_bytes,
)
from interp_compose.models.layers import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import batch_of_lengths, chunk_tokens
from interp_compose.runs.checksums import read_signed
from interp_compose.runs.numbered import FINGERPRINT
from interp_compose.runs.result import Result
from interp_compose.studies.cap.options import CapCommand, CapOptions
from interp_compose.studies.cap.result import CONTROLS, STRADDLING, CapCurve, left_out
from interp_compose.studies.core.command import BATCHES, run_on_task
from interp_compose.studies.core.data import HasTest
from interp_compose.studies.core.inputs import (
    CLEAN,
    AnswerTargets,
    PreparedExample,
    PromptBatch,
    answer_lengths_of,
    batch_size_of,
    check_decoder,
    counts_of,
    examples_digest,
    into_batches,
    outcome_rows,
    predictions_of,
    prepare,
    split_clean,
    texts_of_example,
    tokens_of,
)
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.study import Prepared, config_of, measured, prepared_of
from interp_compose.tasks.examples import ExampleRow
from interp_compose.tasks.rows import Tables
from interp_compose.tensors import devices_of

SIZES: Final = (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Of a batch, where what memory is free chooses it: few, so that it most often chooses the same."""


@keywords(CapOptions)
def cap_curve(
    model: LensModel, examples: Iterable[ExampleRow] | HasTest | Tables, options: CapOptions
) -> CapCurve:
    """Layer-wise CAP curve: accuracy after pooling at each layer (CARMA, section 4.3, C.1).

    For each start layer ℓ and pooling, the tokens of every unit are pooled into one vector in
    the residual that enters block ℓ, the model runs on with the shortened sequence, and the
    prediction at the last position is compared with the answer, by default over the whole
    vocabulary. BOS, padding and the prediction position are never pooled.

    Args:
        model: from :func:`load_model`, in evaluation mode.
        examples: a task (its test split), a table of pandas, polars, arrow or the hub, or a list
            of :class:`Example`, of dictionaries or of tuples (prompt, answer). Columns and keys are
            ``prompt`` and ``answer``, the exact text that follows, its leading space included;
            where the unit needs them, ``spans`` or ``tree`` (:func:`read_examples`).
        options: every option.

    Returns:
        A :class:`CapCurve` with ``.frame``, ``.outcomes``, ``.clean``, ``.plot()``, ``.save()``.

    Raises:
        InputError: before any work, with the example, the value and the remedy.
        InterventionError: not one example has a unit of several tokens.
        CapabilityError: a probe shows that the model does not honour what this needs.
        TrainingModeError, NonFiniteError: see their names.
    """
    if options.resume is not None:
        options = as_kept(options, Path(options.resume))
    prepared = prepared_of(prepare_cap, model, examples, options)
    return measured(prepared, progress=options.progress, resume=options.resume)


def run(command: CapCommand) -> CapCurve | str:
    """The command ``interp-compose cap``."""
    if command.study.batch_size == "auto" and command.output.shard is not None:
        raise OptionError(
            f"batch_size='auto' with shard={command.output.shard!r}: machines with other memory "
            "would choose other batches; give all shards the same number"
        )
    if not command.output.overwrite:
        out = command.output.out
        command = replace(command, study=as_kept(command.study, out, out / BATCHES))
    return run_on_task(command, prepare_cap)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCap(Prepared[CapCurve]):
    """Examples, and what is done to each of them.

    Attributes:
        items: the examples.
        options: of the curve.
        layers: start layers, ascending.
        poolings: by name, controls included.
    """

    items: Sequence[PreparedExample]
    options: CapOptions
    layers: Sequence[int]
    poolings: Mapping[str, How | OwnPooling]

    def _run(self, items: Sequence[PreparedExample]) -> tuple[list[int], list[int], list[int]]:
        """Positions of each example's streams: all, and those from its first change on, where the
        model can go on from there; and of the latter those that run together."""
        continues, n_read = self.model.continues, max(len(item.answer_ids) for item in items)
        collapses = self.options.mode == "collapse"
        whole = [item.n_pooled if collapses else item.n_tokens for item in items]
        run, parts = whole, [0] * len(items)
        if continues:
            firsts = [item.prompt.n_before_change for item in items]
            run = [max(n - first, n_read) for n, first in zip(whole, firsts, strict=True)]
            # Those that begin in the same quarter of the batch run together (streams.Shared).
            parts = [4 * (max(whole) - n) // max(whole) for n in run]
        together = max(
            ([n for n, of in zip(run, parts, strict=True) if of == part] for part in {*parts}),
            key=sum,
        )
        return whole, run, together

    def least_bytes(self, items: Sequence[PreparedExample]) -> int:
        """Of the clean pass, or of the streams behind the first change of each example."""
        length, continues = max(item.n_tokens for item in items), self.model.continues
        n_read = max(len(item.answer_ids) for item in items)
        layers = self.layers if any(item.affected for item in items) else ()
        _, run, together = self._run(items)
        # Random spans of the control may begin anywhere; of their streams, what is read is run.
        n_random = int(continues and "shuffled" in self.poolings)
        cells = len(layers) * (len(self.poolings) - n_random)
        return least_bytes(
            self.model,
            len(items),
            length,
            captured=len(layers) * len(items) * length,
            positions=cells * sum(run) + len(layers) * n_random * n_read * len(items),
            together=(cells * len(together), cells * sum(together)),
            n_read=n_read,
            kept=continues,
        )

    def expected_bytes(self, items: Sequence[PreparedExample]) -> int | None:
        """By :func:`.sweep_bytes`; None for two stacks, of which it knows nothing."""
        if len(self.model.stacks) > 1:
            return None
        n_read = max(len(item.answer_ids) for item in items)
        whole, run, together = self._run(items)
        ways = in_part = len(self.poolings)
        # Random spans begin elsewhere than others that begin behind the first quarter.
        if "shuffled" in self.poolings and max(together) <= 0.75 * max(whole):
            in_part -= 1
        parts = sweep_bytes(
            Shape.of(self.model),
            len(items),
            max(item.n_tokens for item in items),
            n_layers=len(self.layers) if any(item.affected for item in items) else 0,
            ways=ways,
            pooled=max(whole),
            positions=ways * sum(run),
            together=(in_part * len(together), in_part * sum(together)),
            max_tokens=chunk_tokens(self.model, max(whole), logits=n_read),
            n_read=n_read,
            kept=self.model.continues,
        )
        return sum(parts.values())

    def rows(self, items: Sequence[PreparedExample]) -> pd.DataFrame:
        """One batch's outcomes, the clean ones under layer ``CLEAN``."""
        model, options, layers = self.model, self.options, self.layers
        batch = PromptBatch.of([item.prompt for item in items], model.device)
        targets = AnswerTargets.of(items, model.device)
        affected = any(item.affected for item in items)
        names = [f"blocks.{layer}.hook_resid_pre" for layer in layers] if affected else []
        logits, resid, kept = capture_kept(
            model, batch.tokens, names, batch.mask, read=targets.read
        )
        clean = _rows(items, targets.outcomes(logits), ["clean"], [CLEAN])
        if not affected:
            return clean
        units = batch.layout([item.prompt.groups for item in items])
        spans = {
            name: batch.layout([groups_of(item, options.seed) for item in items])
            for name, groups_of in OTHER_SPANS.items()
            if name in self.poolings
        }

        def finish(
            streams: Streams, layer: int, row: Int[Tensor, "stream"]
        ) -> Float[Tensor, "stream 4"]:
            return targets.outcomes(resumed(model, streams, layer, read=targets.read), row)

        pooled = sweep(
            model,
            lambda layer: resid.pop(f"blocks.{layer}.hook_resid_pre"),
            batch.mask,
            model.positions(batch.tokens, batch.mask),
            with_layouts(self.poolings, units, spans),
            layers,
            finish,
            mode=options.mode,
            renumber=options.renumber,
            max_tokens=chunk_tokens(model, units.n_positions, logits=targets.n_read),
            kept=kept,
            n_read=targets.n_read,
        )
        rows = _rows(items, pooled.flatten(0, 2), list(self.poolings), layers)
        return pd.concat([clean, rows], ignore_index=True)

    def result(self, rows: pd.DataFrame) -> CapCurve:
        """The result; examples that pooling cannot change keep their clean outcome everywhere."""
        outcomes, clean = split_clean(
            rows, self.model, self.items, ["layer", "pooling"], self.options.answers
        )
        cells = [self.layers, [*self.poolings]]
        grid = pd.MultiIndex.from_product(cells, names=["layer", "pooling"])
        unchanged = clean.loc[~clean["affected"], outcomes.columns.drop(["layer", "pooling"])]
        filled = unchanged.merge(grid.to_frame(index=False), how="cross")
        # A batch of affected examples never holds unaffected ones: batches_of keeps them apart.
        all_outcomes = pd.concat([outcomes, filled], ignore_index=True)
        return CapCurve.from_outcomes(
            all_outcomes,
            clean,
            self.config,
            n_layers=self.model.n_layers,
            tokens=tokens_of(self.model, self.items),
            predictions=predictions_of(self.model, all_outcomes),
        )


def prepare_cap(
    model: LensModel,
    examples: Iterable[ExampleRow],
    options: CapOptions,
    *,
    within: bool = False,
) -> PreparedCap:
    """Check everything that a CAP curve needs, before any of it is measured. ``within`` another
    study, whose users do not have all of its options, no message names one of those.

    Raises:
        InputError, InterventionError, CapabilityError: as :func:`cap_curve`.
    """
    instead = "measure its agreement with people" if within else "measure it with similarity_curve"
    check_decoder(model, instead)
    batch_size = None if options.batch_size == "auto" else options.batch_size
    check_numbers(options.seed, batch_size)
    chosen_poolings = poolings_of(options.pooling, model)
    collapses = options.mode == "collapse"
    check_renumbered(model, options.mode, options.renumber)
    needed = ("resume", *needs(options.mode, options.renumber))
    layers = resolve_layers(options.layers, model.n_layers)
    shorter = "Use shorter prompts." if within else "Use mode='broadcast', or shorter prompts."
    remedy = shorter if collapses else None
    items, skipped = prepare(model, examples, options, collapse=remedy, within=within)
    model.require(*needed)
    if not any(item.affected for item in items):
        raise InterventionError(
            f"pooling would change none of the {len(items)} examples: every {options.unit} is a "
            'single token of this tokenizer. Choose larger units (unit="constituent", or spans of '
            "your own)."
        )
    controls, straddling = _controls(items, options)
    poolings = with_controls(chosen_poolings, controls)
    longest = max(item.n_pooled if collapses else item.n_tokens for item in items)
    sized = replace(options, batch_size=batch_size)
    size = batch_size_of(model, items, sized, len(layers) * len(poolings), longest)
    config = config_of(
        "cap",
        model,
        options,
        layers=layers,
        pooling=list(chosen_poolings),
        batch_size=size,
        n_examples=len(items),
        examples_sha256=examples_digest(items),
        **straddling,
        **answer_lengths_of(items, options),
        **counts_of(skipped, map(texts_of_example, items)),
    )
    prepared = PreparedCap(
        kind=CapCurve,
        model=model,
        config=config,
        batches=batches_of(items, size),
        unversioned=own_poolings(chosen_poolings),
        items=items,
        options=options,
        layers=layers,
        poolings=poolings,
    )
    return _in_fitting_batches(prepared) if options.batch_size == "auto" else prepared


def _in_fitting_batches(prepared: PreparedCap) -> PreparedCap:
    """In the largest batches of which none is expected to take more than its share of what is free;
    as it is where that cannot be known, and where texts would change each other's results."""
    model, items = prepared.model, prepared.items
    free = free_bytes(devices_of(model.parameters()))
    limited = batch_of_lengths(model, [item.n_tokens for item in items], None) is not None
    if free is None or limited or prepared.expected_bytes(items) is None:
        return prepared
    share = MOST_OF_FREE * free

    def fits(size: int) -> bool:
        batches = reversed(batches_of(items, size))  # the longest first
        return all((prepared.expected_bytes(batch) or 0) <= share for batch in batches)

    size = next(filter(fits, [size for size in SIZES if size < 2 * len(items)]), 1)
    config = {**prepared.config, "batch_size": size}
    return replace(prepared, config=config, batches=batches_of(items, size))


def as_kept(options: CapOptions, *folders: Path) -> CapOptions:
    """Instead of "auto" the number that a result or finished batches in one of the folders have."""
    if options.batch_size == "auto":
        for folder in folders:
            with suppress(MissingDataError, CorruptFileError, InputError, KeyError):
                return replace(options, batch_size=Result.load(folder).config["batch_size"])
            with suppress(CorruptFileError, KeyError):
                kept = read_signed(folder / FINGERPRINT)
                return replace(options, batch_size=kept["batch_size"])
    return options


def batches_of(items: Sequence[PreparedExample], size: int) -> list[list[PreparedExample]]:
    """Examples of like length together, and apart from those that pooling cannot change."""

    def lengths(item: PreparedExample) -> tuple[int, int, int]:
        return item.n_pooled, item.n_tokens, item.index

    return [
        batch
        for affected in (False, True)
        for batch in into_batches((it for it in items if it.affected == affected), size, lengths)
    ]


def _controls(
    items: Sequence[PreparedExample], options: CapOptions
) -> tuple[Sequence[str], dict[str, dict[str, int]]]:
    """The controls, and for the config how many units of several tokens one of them moves, of how
    many; without that control where it moves none and so would be the mean."""
    if not options.controls:
        return (), {}
    several = [item for item in items if item.affected]
    units = [item.prompt.groups.tolist() for item in several]
    moved = sum(
        n_moved(groups, _straddled(item, options.seed))
        for groups, item in zip(units, several, strict=True)
    )
    counts = {"moved": moved, "of": sum(map(n_several, units))}
    if moved:
        return CONTROLS, {STRADDLING: counts}
    warn(left_out(counts["of"]))
    return [name for name in CONTROLS if name != STRADDLING], {STRADDLING: counts}


def _shuffled(item: PreparedExample, seed: int) -> list[int]:
    """Units of the same sizes at random places, on each side where there are two."""
    placed = partial(shuffled_groups, seed=seed, example=item.index)
    return on_sides(placed, item.prompt.groups.tolist(), item.prompt.n_source)


def _straddled(item: PreparedExample, seed: int) -> list[int]:
    """Units one token off, on each side where there are two; nothing is drawn by ``seed``. A
    number that is made of the text says where the first goes: the list around it changes nothing.
    """
    placed = partial(straddled_groups, left_first=crc32(item.prompt.text.encode()) % 2 == 0)
    return on_sides(placed, item.prompt.groups.tolist(), item.prompt.n_source)


OTHER_SPANS: Final = {STRADDLING: _straddled, "shuffled": _shuffled}
"""The controls that are means over other spans than the units."""


def _rows(
    items: Sequence[PreparedExample],
    outcomes: Float[Tensor, "rows 4"],
    poolings: Sequence[str],
    layers: Sequence[int],
) -> pd.DataFrame:
    n = len(items)
    place: dict[str, list[Any]] = {
        "example": [item.index for item in items] * (len(layers) * len(poolings)),
        "layer": [layer for layer in layers for _ in range(len(poolings) * n)],
        "pooling": [name for _ in layers for name in poolings for _ in range(n)],
    }
    return outcome_rows(outcomes, place, "after {0.pooling} pooling at layer {0.layer}")
