"""The shape of a study: options and data are planned, the plan is worked off batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_args, get_type_hints

import pandas as pd
import torch

from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.runs.batches import batch_by_batch
from interp_compose.studies.core.data import HasTest, filtered_of, rows_of
from interp_compose.studies.core.keywords import with_keywords
from interp_compose.studies.core.options import Options
from interp_compose.studies.core.result import StudyResult
from interp_compose.tasks.rows import Tables

Data = TypeVar("Data")
OptionsT = TypeVar("OptionsT", bound=Options)
R = TypeVar("R", bound=StudyResult)
P = ParamSpec("P")


@dataclass(frozen=True)
class Plan(Generic[R]):
    """Work whose input has been checked: nothing in it is left to be refused."""

    kind: type[R]
    model: LensModel
    config: Mapping[str, Any]
    """What the result says of itself; its model's weights and its data by their SHA-256."""
    batches: Sequence[Any]
    compute: Callable[[LensModel, Any], pd.DataFrame]
    """The rows of one batch."""
    result: Callable[[LensModel, pd.DataFrame], R]
    """The result of all rows."""
    unversioned: Sequence[str] = ()
    """Functions of the user's that act in it: no version names them."""

    @torch.no_grad()
    def rows(self, batch: Any) -> pd.DataFrame:
        """The rows of one batch."""
        return self.compute(self.model, batch)


def measure(
    plan: Plan[R],
    *,
    progress: bool = True,
    resume: str | Path | None = None,
    start_afresh: bool = False,
    keep: Callable[[R], object] = lambda result: None,
) -> R:
    """Carry out a plan. With ``start_afresh``, batches of another run are discarded.

    ``keep`` is given the result before the finished batches are deleted.
    """
    with batch_by_batch(
        plan.batches,
        plan.rows,
        plan.config,
        title=f"{plan.config['study']} {plan.model.name}",
        progress=progress,
        resume=resume,
        unversioned=[*plan.model.open_blocks.unversioned, *plan.unversioned],
        start_afresh=start_afresh,
    ) as rows:
        result = plan.result(plan.model, rows)
        keep(result)
        return result


class Study(Generic[Data, OptionsT, P, R]):
    """The type of a study's function: ``(model, data, **options)`` gives its result."""

    plan: Callable[[LensModel, Data, OptionsT], Plan[R]]
    """The planning alone, given the options as one object."""

    def __call__(
        self,
        model: LensModel,
        data: Data | HasTest | Tables,
        /,
        *args: P.args,
        **options: P.kwargs,
    ) -> R:
        raise NotImplementedError


def study(
    options: Callable[P, OptionsT],
) -> Callable[[Callable[[LensModel, Data, OptionsT], Plan[R]]], Study[Data, OptionsT, P, R]]:
    """Make a planning function ``(model, data, options)`` the study's public function.

    Its keywords are the fields of ``options``, as with :func:`.keywords.keywords`; its data may be
    a task or a table as well (:mod:`.core.data`).
    """

    def decorate(
        plan: Callable[[LensModel, Data, OptionsT], Plan[R]],
    ) -> Study[Data, OptionsT, P, R]:
        def measured(model: LensModel, data: Any, values: OptionsT) -> R:
            rows, values = rows_of(data, values)
            planned = noting(plan(model, rows, values), filtered=filtered_of(data))
            return measure(planned, progress=values.progress, resume=values.resume)

        (result,) = get_args(get_type_hints(plan)["return"])
        function = with_keywords(
            measured, options, described=plan, returns=result, also=HasTest | Tables
        )
        function.plan = plan  # type: ignore[attr-defined]
        return cast("Study[Data, OptionsT, P, R]", function)

    return decorate


def noting(plan: Plan[R], **entries: str) -> Plan[R]:
    """A plan whose result's config says more; empty texts are left out."""
    more = {name: text for name, text in entries.items() if text}
    if not more:
        return plan

    def noted(model: LensModel, rows: pd.DataFrame) -> R:
        result = plan.result(model, rows)
        return replace(result, config={**result.config, **more})

    return replace(plan, config={**plan.config, **more}, result=noted)


def config_of(study: str, model: LensModel, options: Options, **settled: Any) -> dict[str, Any]:
    """What a result says of itself: model, options, and what of them was ``settled`` otherwise."""
    values = {
        each.name: _plain(getattr(options, each.name))
        for each in fields(options)
        if each.name not in ("progress", "resume", "on_bad")
    }
    return {
        "study": study,
        "model": model.name,
        "architecture": model.architecture,
        "n_layers": model.n_layers,
        **values,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type,
        "active_hooks": list(model.active_hooks),
        "weights_sha256": weights_digest(model),
        **settled,
    }


def _plain(value: Any) -> Any:
    """In JSON's types; a set in order, an empty one as None."""
    if isinstance(value, frozenset):
        return sorted(value) or None
    return value if isinstance(value, str) or not isinstance(value, Sequence) else list(value)
