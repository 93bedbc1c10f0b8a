"""The command line: one command per study, whose config dataclass is its options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import tyro

from interp_compose.recipes.ablation import AblationConfig
from interp_compose.recipes.cap import CapConfig
from interp_compose.recipes.carma import CarmaStudy
from interp_compose.recipes.complexity import ComplexityConfig
from interp_compose.recipes.probe import ProbeConfig
from interp_compose.recipes.similarity import SimilarityConfig

Study = CapConfig | AblationConfig | SimilarityConfig | CarmaStudy | ProbeConfig | ComplexityConfig

COMMANDS: dict[str, Callable[..., Study]] = {
    "cap": CapConfig,
    "ablate": AblationConfig,
    "similarity": SimilarityConfig,
    "carma": CarmaStudy,
    "probe": ProbeConfig,
    "complexity": ComplexityConfig,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``interp-compose``. Exit status 2 for refused input, 130 when interrupted."""
    config = tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="interp-compose",
        description="How, and where, does a transformer compose meaning?",
        args=argv,
    )
    from interp_compose.errors import InterpComposeError

    try:
        _run(config)
    except InterpComposeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        print(
            "\ninterrupted: the same command again goes on from what is finished.", file=sys.stderr
        )
        raise SystemExit(130) from None


def _run(config: Study) -> None:
    from interp_compose.recipes import ablation, cap, carma, complexity, probe, similarity

    if config.quiet:
        from transformers.utils import logging

        logging.disable_progress_bar()  # of loading weights
    if isinstance(config, CapConfig):
        _tell(config, cap.run(config))
    elif isinstance(config, AblationConfig):
        _tell(config, ablation.run(config))
    elif isinstance(config, SimilarityConfig):
        _tell(config, similarity.run(config))
    elif isinstance(config, ProbeConfig):
        _tell(config, probe.run(config))
    elif isinstance(config, ComplexityConfig):
        _tell(config, complexity.run(config), "runs/ (weights and history of each)")
    else:
        _tell(config, carma.run(config), "report.html", "runs/ (weights and history of each)")


@runtime_checkable
class _Result(Protocol):
    def summary(self) -> str: ...

    def figures(self) -> Mapping[str, Any]: ...


def _tell(config: Study, result: _Result, *pages: str) -> None:
    """What came out, and where it lies."""
    if config.quiet:
        return
    print(result.summary())
    figures = [f"{name}.html, {name}.png" for name in result.figures()]
    print(f"\nwritten to {config.out}/: {', '.join([*pages, *figures])}, tables (.parquet, .csv)")


if __name__ == "__main__":
    main()
