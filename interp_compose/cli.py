"""The command line: one command per study, whose config dataclass is its options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import tyro

from interp_compose.recipes.cap import CapConfig
from interp_compose.recipes.similarity import SimilarityConfig

COMMANDS: dict[str, Callable[..., CapConfig | SimilarityConfig]] = {
    "cap": CapConfig,
    "similarity": SimilarityConfig,
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
        print("\ninterrupted: the same command again goes on with the next batch.", file=sys.stderr)
        raise SystemExit(130) from None


def _run(config: CapConfig | SimilarityConfig) -> None:
    from interp_compose.recipes import cap, similarity

    if config.quiet:
        from transformers.utils import logging

        logging.disable_progress_bar()  # of loading weights
    curve = cap.run(config) if isinstance(config, CapConfig) else similarity.run(config)
    if not config.quiet:
        print(curve.summary())
        figures = ", ".join(f"{name}.html, {name}.png" for name in curve.figures())
        print(f"\nwritten to {config.out}/: {figures}, tables (.parquet, .csv)")


if __name__ == "__main__":
    main()
