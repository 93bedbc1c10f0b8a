"""Hook points: whether they fire, edits act, and they show what they are named for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jaxtyping import Int
from torch import Tensor

from interp_compose.models.capabilities import prove_edits
from interp_compose.models.lens_model import LensModel
from interp_compose.models.outcomes import Outcome
from interp_compose.models.shown import (
    Found,
    Recorded,
    attention,
    parts,
    residuals,
    seen_by_softmax,
)
from interp_compose.studies.core.text import counted


def check_hooks(
    model: LensModel, tokens: Int[Tensor, "batch pos"], step: Callable[[], object]
) -> Iterator[Found]:
    """Every check of every hook point; ``step`` is called once for each point: after its edit, or
    where it never fires."""
    recorded = Recorded(model, tokens)
    names = [name for name in recorded.points if recorded.fired[name]]
    for name in recorded.points:
        times = recorded.fired[name]
        status = "holds" if times else "silent"
        detail = f"{counted(times, 'times')} in one call" if times else "never in one call"
        yield name, "fires", Outcome(status, detail)  # type: ignore[arg-type]
        if not times:
            step()
    for name, probe in prove_edits(model, names, step=step).items():
        outcome = probe.outcome(of_edit=True)
        yield name, "a random edit moves the output, a copy does not", outcome
    yield from parts(recorded)
    seen = seen_by_softmax(model, tokens)
    for layer in range(model.n_layers):
        yield from residuals(recorded, layer)
        for site in model.attention_sites(layer):
            yield from attention(recorded, site, seen.get(site))
