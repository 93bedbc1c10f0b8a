"""What a run is named by."""

from __future__ import annotations

from dataclasses import dataclass, field

from interp_compose import cli
from interp_compose.papers.cat.studies.pretrain.options import EncoderTraining, PretrainCommand
from interp_compose.settings import LATER, identity_of


@dataclass(frozen=True)
class Run:
    seed: int = 0
    added: float = field(default=0.5, metadata=LATER)


def test_a_field_of_a_later_release_names_a_run_where_it_differs_from_its_default() -> None:
    assert identity_of(Run()) == {"seed": 0}
    assert identity_of(Run(seed=1, added=0.0)) == {"seed": 1, "added": 0.0}


def test_the_command_names_a_run_as_the_function_does() -> None:
    """Its help texts lie in the fields, too."""
    cli._wrap_help(PretrainCommand)
    assert "guided_positive" not in identity_of(EncoderTraining())
    assert identity_of(EncoderTraining(guided_positive=0.5))["guided_positive"] == 0.5
