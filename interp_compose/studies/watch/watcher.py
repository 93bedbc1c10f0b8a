"""The watcher of a training: told every step, it measures when it is time and within budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import nn

from interp_compose._public import public
from interp_compose.errors import InputError, NonFiniteError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.ready import check_tokenizer
from interp_compose.models.trained import TrainedModel
from interp_compose.models.untouched import random_states_kept
from interp_compose.runs.files import plain_json
from interp_compose.studies.watch.budget import Budget
from interp_compose.studies.watch.measures import OF_WEIGHTS, Measurement, planned
from interp_compose.studies.watch.options import WatchOptions
from interp_compose.studies.watch.result import Watched, of_rows
from interp_compose.studies.watch.rows import Row, Rows

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure
    from interp_compose.studies.watch.callback import WatchCallback


@public
class Watcher:
    """Measures of a model while it is trained; :func:`.measure.watch` makes one.

    Called with the number of steps that the weights have seen, or with a row of
    :func:`finetune` that has it as ``step``; a step is measured once, however often it is told.
    Modes, random states and gradients of the model are after a call what they were before it.
    """

    def __init__(self, model: LensModel | nn.Module, options: WatchOptions) -> None:
        self._options = options
        self._budget = Budget(options.budget, options.clock)
        self._path = None if options.path is None else Path(options.path)
        self._measurements: Sequence[Measurement] = ()
        self.watch(model)

    def __repr__(self) -> str:
        taken = sum(bool(row["taken"]) for row in self._rows.looks)
        return f"<Watcher of {', '.join(self._options.measures)}: looks so far {taken}>"

    def watch(self, model: LensModel | nn.Module) -> None:
        """Look at this model from now on, such as the copy that :func:`finetune` trains.

        Raises:
            OptionError, InputError, CapabilityError: as :func:`.measure.watch` raises them.
        """
        options = self._options
        self._model = TrainedModel(model, tokenizer=options.tokenizer)
        with self._model.looked_at() as lens:
            if lens is not model and not OF_WEIGHTS.keys() >= set(options.measures):
                check_tokenizer(lens, "watch")  # which made lens of the model
            self._measurements = planned(lens, options)
            config = {
                "study": "watch",
                "model": lens.name,
                "architecture": lens.architecture,
                "n_layers": lens.n_layers,
                "measures": list(options.measures),
                "every": options.every,
                "budget": options.budget,
            }
        for measurement in self._measurements:
            config |= measurement.metadata
        self._rows = Rows(plain_json(config, "config"), self._path)
        self._started = False

    def __call__(self, step: int | Mapping[str, float | int]) -> None:
        """The weights are those after ``step`` steps now.

        Raises:
            InputError: the file at ``path`` holds another watcher's rows.
            NonFiniteError: NaN or infinite weights or logits; names the step.
            OutputError: the file cannot be written.
        """
        number = _step_of(step)
        if self._options.also is None and self._started and not self._is_due(number):
            return  # at most steps; keeping random states would take 1 % of a small model's
        with random_states_kept(self._model.module):
            if isinstance(step, Mapping) and self._options.also is not None:
                self._options.also(dict(step))
            if not self._started:
                self._take_up(number)
            if self._is_due(number):
                self._look_or_skip(number)

    def begin(self, step: int) -> None:
        """Training starts, or goes on from a checkpoint of this step: rows of it and of steps
        before it are kept, later ones dropped, to be measured again.

        Not needed where the watcher is called at every step: the first step that it is told is one
        that has not been measured.
        """
        with random_states_kept(self._model.module):
            self._take_up(_step_of(step) + 1 if step else 0)

    def look(self, step: int) -> None:
        """Measure now, whatever the budget: after the last step, for instance.

        Raises:
            InputError: this step was measured, or is before one that was.
        """
        with random_states_kept(self._model.module):
            if not self._started:
                self._take_up(_step_of(step))
            taken = [row["step"] for row in self._rows.looks if row["taken"]]
            if taken and step <= taken[-1]:
                raise InputError(
                    f"step={step}: step {taken[-1]} has been measured; expected a later one"
                )
            if self._rows.looks and self._rows.looks[-1]["step"] == step:
                self._rows.looks.pop()
            self._look(step, self._budget.training)

    def callback(self) -> WatchCallback:
        """For ``transformers.Trainer(callbacks=[…])``, of the model that is watched."""
        from interp_compose.studies.watch.callback import WatchCallback

        return WatchCallback(self)

    @property
    def result(self) -> Watched:
        """What there is by now."""
        return of_rows(self._rows)

    @property
    def frame(self) -> pd.DataFrame:
        """:attr:`.result.Watched.frame` by now."""
        return self.result.frame

    @property
    def looks(self) -> pd.DataFrame:
        """:attr:`.result.Watched.looks` by now."""
        return self.result.looks

    def plot(self, measure: str | None = None) -> ChartFigure:
        """:meth:`.result.Watched.plot` by now."""
        return self.result.plot(measure)

    def _take_up(self, steps: int) -> None:
        self._rows.begin(steps)
        self._started = True
        looks = self._rows.looks
        if not looks:
            self._budget.begin()
            return
        taken = [row["seconds"] for row in looks if row["taken"]]
        self._budget.begin(
            training=looks[-1]["training_seconds"],
            watching=looks[-1]["watching_seconds"],
            last=taken[-1] if taken else None,
        )

    def _is_due(self, step: int) -> bool:
        looks = self._rows.looks
        return step % self._options.every == 0 and (not looks or looks[-1]["step"] != step)

    def _look_or_skip(self, step: int) -> None:
        training = self._budget.training
        if self._budget.allows(training):
            self._look(step, training)
        else:
            expected = self._budget.last
            self._note(step, training, (), taken=False, seconds=0.0, expected=expected)

    def _look(self, step: int, training: float) -> None:
        clock, expected = self._budget.clock, self._budget.last
        self._wait()
        started = clock()
        rows: list[Row] = []
        try:
            with self._model.looked_at() as lens:
                for measurement in self._measurements:
                    rows += ({"step": step, **row} for row in measurement.look(lens))
        except NonFiniteError as broken:
            raise NonFiniteError(f"at step {step}: {broken}") from broken
        self._wait()
        self._budget.last = clock() - started
        self._note(step, training, rows, taken=True, seconds=self._budget.last, expected=expected)
        if self._options.also is not None:
            self._options.also({"step": step} | _flat(rows))

    def _note(self, step: int, training: float, measured: Sequence[Row], **entries: Any) -> None:
        self._budget.watching += entries["seconds"]
        look = {"step": step, "training_seconds": training}
        look |= {"watching_seconds": self._budget.watching, **entries}
        self._rows.add(measured, look)

    def _wait(self) -> None:
        """Until the GPU has done what training gave it, which is not the look's time."""
        weight = next(self._model.module.parameters())
        if weight.device.type == "cuda":
            torch.cuda.synchronize(weight.device)


def _step_of(step_or_row: int | Mapping[str, float | int]) -> int:
    if isinstance(step_or_row, Mapping) and "step" not in step_or_row:
        raise OptionError(f"a row with {', '.join(step_or_row)}: expected one with a step")
    step = int(step_or_row["step"]) if isinstance(step_or_row, Mapping) else step_or_row
    if step < 0:
        raise OptionError(f"step={step}: expected the number of steps done, 0 or more")
    return step


def _flat(rows: Sequence[Row]) -> dict[str, float]:
    """Like ``layer 2/W_Q/stable_rank``, as trackers take it; no gaps."""
    return {
        f"{place(row)}{row['of']}/{row['measure']}": row["value"]
        for row in rows
        if row["value"] == row["value"]
    }


def place(row: Row) -> str:
    """Like ``layer 2/``; nothing for what is measured without an intervention."""
    return "" if row["layer"] < 0 else f"layer {row['layer']}/"
