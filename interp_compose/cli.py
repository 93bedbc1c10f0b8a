"""The command line: one command per study, whose config dataclass is its options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import tyro

from interp_compose.recipes.cap import CapConfig

COMMANDS: dict[str, Callable[..., CapConfig]] = {"cap": CapConfig}


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
        _cap(config)
    except InterpComposeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        print("\ninterrupted: the same command again goes on with the next batch.", file=sys.stderr)
        raise SystemExit(130) from None


def _cap(config: CapConfig) -> None:
    from interp_compose.recipes.cap import run

    if config.quiet:
        from transformers.utils import logging

        logging.disable_progress_bar()  # of loading weights
    curve = run(config)
    if not config.quiet:
        print(curve.summary())
        print(f"\nwritten to {config.out}/: cap_curve.html, cap_curve.png, tables (.parquet, .csv)")


if __name__ == "__main__":
    main()
