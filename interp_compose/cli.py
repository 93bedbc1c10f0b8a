"""The command line: one command per study, whose config dataclass is its options.

A study's module holds its config and ``run(config)``, which returns the result.
"""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Protocol, runtime_checkable

import tyro

from interp_compose._versions import __version__
from interp_compose.studies.ablation.options import AblationConfig
from interp_compose.studies.cap.options import CapConfig
from interp_compose.studies.carma.options import CarmaStudy
from interp_compose.studies.fitting_speed.options import SpeedConfig
from interp_compose.studies.mechanism.options import MechanismConfig
from interp_compose.studies.phases.options import PhasesConfig
from interp_compose.studies.similarity.options import SimilarityConfig
from interp_compose.studies.weights.options import WeightsConfig

Study = (
    CapConfig
    | AblationConfig
    | SimilarityConfig
    | CarmaStudy
    | WeightsConfig
    | PhasesConfig
    | MechanismConfig
    | SpeedConfig
)

COMMANDS: dict[str, Callable[..., Study]] = {
    "cap": CapConfig,
    "ablate": AblationConfig,
    "similarity": SimilarityConfig,
    "carma": CarmaStudy,
    "weights": WeightsConfig,
    "phases": PhasesConfig,
    "mechanism": MechanismConfig,
    "speed": SpeedConfig,
}

RENAMED: Final = {"complexity": "phases", "probe": "weights"}
"""Commands by what they were called before; still understood."""

RUNS: Final = "runs/ (weights and history of each)"
PAGES: Final[Mapping[type, tuple[str, ...]]] = {
    CarmaStudy: ("report.html", RUNS),
    PhasesConfig: (RUNS,),
    SpeedConfig: ("runs/ (history of each)",),
}
"""What a study writes besides tables and figures."""


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``interp-compose``. Exit status 2 for refused input, 130 when interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv == ["--version"]:
        print(f"interp-compose {__version__}")
        return
    if argv and argv[0] in RENAMED:
        name = RENAMED[argv[0]]
        print(f"`interp-compose {argv[0]}` is called `interp-compose {name}` now", file=sys.stderr)
        argv = [name, *argv[1:]]
    config = tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="interp-compose",
        description="How, and where, does a transformer compose meaning?",
        args=argv,
    )
    from interp_compose.errors import InterpComposeError

    if _is_empty(argv):
        print("OptionError: --out is empty; name a folder (. is this one)", file=sys.stderr)
        raise SystemExit(2)
    try:
        with _kill_is_ctrl_c():
            _run(config)
    except InterpComposeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        print(
            "\ninterrupted: the same command again goes on from what is finished.", file=sys.stderr
        )
        raise SystemExit(130) from None


def _is_empty(argv: Sequence[str]) -> bool:
    """Whether --out was given an empty text, such as a variable that is not set: as a path it would
    be the folder one is in."""
    return "--out=" in argv or any(
        one == "--out" and not other for one, other in itertools.pairwise(argv)
    )


@contextmanager
def _kill_is_ctrl_c() -> Iterator[None]:
    """``kill``, ``timeout`` and a cluster's cancelling end a command, and its workers, as Ctrl-C
    does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are another's here
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(config: Study) -> None:
    if config.quiet:
        from transformers.utils import logging

        logging.disable_progress_bar()  # of loading weights
    study = import_module(type(config).__module__)
    _tell(config, study.run(config), *PAGES.get(type(config), ()))


@runtime_checkable
class _Result(Protocol):
    def summary(self) -> str: ...

    def figures(self) -> Mapping[str, Any]: ...


def _tell(config: Study, result: _Result, *pages: str) -> None:
    """What came out, and where it lies."""
    from interp_compose.runs.result import mixed_versions

    if config.quiet:
        return
    print(result.summary())
    mixed = mixed_versions(getattr(result, "versions", {}))
    if mixed:
        print(f"\n! {mixed}")
    figures = [f"{name}.html, {name}.png" for name in result.figures()]
    print(f"\nwritten to {config.out}/: {', '.join([*pages, *figures])}, tables (.parquet, .csv)")


if __name__ == "__main__":
    main()
