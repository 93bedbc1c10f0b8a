"""The shape of a study: options and data are planned, the plan is worked off batch by batch."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_args, get_type_hints

import pandas as pd

from interp_compose._public import public
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.runs.batches import batch_by_batch
from interp_compose.studies.core.options import Options
from interp_compose.studies.core.result import StudyResult

Data = TypeVar("Data")
Asked = TypeVar("Asked", bound=Options)
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
        lambda batch: plan.compute(plan.model, batch),
        plan.config,
        title=f"{plan.config['study']} {plan.model.name}",
        progress=progress,
        resume=resume,
        unversioned=plan.model.unversioned_hooks,
        start_afresh=start_afresh,
    ) as rows:
        result = plan.result(plan.model, rows)
        keep(result)
        return result


class Study(Generic[Data, Asked, P, R]):
    """The type of a study's function: ``(model, data, **options)`` gives its result."""

    plan: Callable[[LensModel, Data, Asked], Plan[R]]
    """The planning alone, given the options as one object."""

    def __call__(self, model: LensModel, data: Data, /, *args: P.args, **asked: P.kwargs) -> R:
        raise NotImplementedError


def study(
    options: Callable[P, Asked],
) -> Callable[[Callable[[LensModel, Data, Asked], Plan[R]]], Study[Data, Asked, P, R]]:
    """Make a planning function ``(model, data, asked)`` the study's public function.

    The fields of ``options``, a dataclass, are its keywords: with their types, which are checked,
    their defaults and, in the place of the docstring's line ``asked:``, their descriptions.
    """

    def decorate(
        plan: Callable[[LensModel, Data, Asked], Plan[R]],
    ) -> Study[Data, Asked, P, R]:
        signature = _signature(options, plan)

        def function(*args: Any, **keywords: Any) -> R:
            try:
                given = signature.bind(*args, **keywords).arguments
            except TypeError as misfit:
                raise TypeError(f"{plan.__name__}() {misfit}") from None
            model, data = (given.pop(name) for name in list(signature.parameters)[:2])
            asked = cast(Callable[..., Asked], options)(**given)
            return measure(plan(model, data, asked), progress=asked.progress, resume=asked.resume)

        for name in ("__module__", "__name__", "__qualname__"):
            setattr(function, name, getattr(plan, name))
        described = descriptions(cast(type, options))
        names = list(signature.parameters)[2:]
        function.__doc__ = _documented(
            plan.__doc__ or "", {name: described.get(name, "") for name in names}
        )
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.plan = plan  # type: ignore[attr-defined]
        return cast("Study[Data, Asked, P, R]", public(function))

    return decorate


def _signature(options: Any, plan: Callable[..., Any]) -> inspect.Signature:
    """The plan's first two parameters, then every option by name alone."""
    hints, known = get_type_hints(plan), get_type_hints(options)
    first = list(inspect.signature(plan).parameters.values())[:2]
    options = sorted(
        inspect.signature(options).parameters.values(),
        key=lambda option: option.name in Options.__dataclass_fields__,  # a study's own come first
    )
    return inspect.Signature(
        [
            *(one.replace(annotation=hints[one.name]) for one in first),
            *(one.replace(annotation=known[one.name]) for one in options),
        ],
        return_annotation=get_args(hints["return"])[0],
    )


def _documented(doc: str, described: Mapping[str, str]) -> str:
    """A docstring with the options' descriptions in the place of its line ``asked:``."""

    def entries(line: re.Match[str]) -> str:
        indent = line[1]
        fill = textwrap.TextWrapper(95, initial_indent=indent, subsequent_indent=indent + "    ")
        return "\n".join(fill.fill(f"{name}: {text}") for name, text in described.items())

    return re.sub(r"^( +)asked:.*$", entries, doc, flags=re.MULTILINE)


def descriptions(options: type) -> dict[str, str]:
    """What the source says below each field of a dataclass and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(options.__mro__[:-1]):
        (source,) = ast.parse(inspect.getsource(base)).body
        body = cast(ast.ClassDef, source).body
        for one, below in pairwise(body):
            if isinstance(one, ast.AnnAssign) and isinstance(below, ast.Expr):
                found[ast.unparse(one.target)] = " ".join(ast.literal_eval(below.value).split())
    return found


def config_of(study: str, model: LensModel, asked: Options, **settled: Any) -> dict[str, Any]:
    """What a result says of itself: model, options, and what of them was ``settled`` otherwise."""
    options = {
        each.name: _plain(getattr(asked, each.name))
        for each in fields(asked)
        if each.name not in ("progress", "resume")
    }
    return {
        "study": study,
        "model": model.name,
        "architecture": model.architecture,
        "n_layers": model.n_layers,
        **options,
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
