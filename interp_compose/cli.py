"""The command line: one command per study.

A command's options are a dataclass of the study's ``options.py``; ``run`` in its ``measure.py`` is
given them and returns the result. Both are imported when the command is given.
"""

from __future__ import annotations

import itertools
import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import tyro

from interp_compose._versions import __version__
from interp_compose.settings import read_toml

if TYPE_CHECKING:
    from interp_compose.studies.core.result import StudyResult

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "cap": ("studies.cap", "CapCommand"),
    "transplant": ("studies.transplant", "TransplantCommand"),
    "similarity": ("studies.similarity", "SimilarityCommand"),
    "ablate": ("studies.ablation", "AblationCommand"),
    "audit": ("studies.audit", "AuditCommand"),
    "weights": ("studies.weights", "WeightsCommand"),
    "carma": ("papers.carma", "CarmaCommand"),
    "phases": ("papers.complexity.studies.phases", "PhasesCommand"),
    "task-phases": ("papers.complexity.studies.task_phases", "TaskPhasesCommand"),
    "concept-graphs": ("papers.complexity.studies.concept_graphs", "ConceptGraphsCommand"),
    "text-phases": ("papers.complexity.studies.text_phases", "TextPhasesCommand"),
    "speed": ("papers.complexity.studies.fitting_speed", "SpeedCommand"),
    "mechanism": ("papers.complexity.studies.mechanism", "MechanismCommand"),
    "generalise": ("papers.lrf.studies.generalise", "GeneraliseCommand"),
    "fusion": ("papers.lrf.studies.fusion", "FusionCommand"),
    "pretrain": ("papers.cat.studies.pretrain", "PretrainCommand"),
    "encoders": ("papers.cat.studies.encoders", "EncodersCommand"),
    "codes": ("papers.cat.studies.codes", "CodesCommand"),
}
"""Each command's folder, and the class of its options in ``options.py`` there; ``run`` in
``measure.py`` carries it out."""
NOT_MEASURING: Final[Mapping[str, tuple[str, str]]] = {
    "explore": ("studies.explore", "ExploreCommand"),
    "plot": ("studies.saved", "PlotCommand"),
    "compare": ("studies.saved", "CompareCommand"),
}
"""Commands that measure nothing: ``run`` in a file of their name returns what is printed."""
GROUPS: Final = {
    "measure a model": ("cap", "transplant", "similarity", "ablate", "audit", "weights"),
    "CARMA": ("carma",),
    "complexity control": (
        *("phases", "task-phases", "concept-graphs", "text-phases", "speed", "mechanism"),
    ),
    "LRF": ("generalise", "fusion"),
    "CAT": ("pretrain", "encoders", "codes"),
    "one text": ("explore",),
    "saved results": ("plot", "compare"),
}
"""Of commands, in the order of the help."""
COMMANDS_OF_TASKS: Final = {"concept-graphs": "concept-graphs", "text": "text-phases"}
"""Tasks of ``phases --task`` that have a command of their own, and that command."""
BY_BLANKS: Final = (
    *("--layers", "--pooling", "--carma-layers", "--stability-layers", "--seeds", "--format"),
    *("--rates", "--channels"),
)
BY_COMMAS: Final = (
    *("--gammas", "--weight-decays", "--sizes", "--depths", "--violations", "--models"),
    *("--train-nodes", "--tasks", "--outputs", "--embeddings", "--tuned", "--shares"),
)
"""Options that read a list, by how; the other way is taken as well."""
LISTED: Final = "\n".join(f"- {group}: {', '.join(names)}" for group, names in GROUPS.items())
ABOUT: Final = f"""How, and where, does a transformer compose meaning?

{LISTED}

Each command has its own help: interp-compose cap --help, and reads options from a TOML file with
--config FILE; those of the command line go before. Also: interp-compose --version, and
interp-compose --tyro-print-completion bash (zsh, tcsh), which prints a script for the shell."""
RENAMED: Final = {"complexity": "phases", "probe": "weights"}
"""Commands by what they were called before; still understood."""
UNSAID: Final = "unset"
"""The default, in a help, of an option that has none: its text says what that means."""
NUMBERS: Final = {
    "INT": "a whole number",
    "FLOAT": "a number",
    "[INT|FLOAT [INT|FLOAT ...]]": "numbers",
}
"""What is expected, in words, by how the parser writes it."""
READABLE: Final = tyro.constructors.ConstructorRegistry()
"""How the parser shows options that may be left out."""


@READABLE.primitive_rule
def _readable(kind: tyro.constructors.PrimitiveTypeInfo) -> Any:
    """``INT`` in place of ``{None}|INT``, though None is understood all the same; and what was
    expected, where something else is given."""
    if UNSAID in kind.markers:
        return None
    again = tyro.constructors.PrimitiveTypeInfo.make(kind.type, {*kind.markers, UNSAID})
    spec = tyro.constructors.ConstructorRegistry.get_primitive_spec(again)
    if isinstance(spec, tyro.constructors.UnsupportedTypeAnnotationError):
        return spec
    shown = spec.metavar.removeprefix("{None}|").replace("{None,", "{")
    shown = shown.strip("{}") if " " in shown else shown

    def read(given: list[str]) -> Any:
        try:
            return spec.instance_from_str(given)
        except ValueError:
            wanted = NUMBERS.get(shown, shown)
            raise ValueError(f"got {' '.join(given)!r}; expected {wanted}") from None

    def write(one: Any) -> list[str]:
        return [UNSAID] if one is None else spec.str_from_instance(one)

    return replace(spec, metavar=shown, instance_from_str=read, str_from_instance=write)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``interp-compose``. Exit status 1 where an audit finds something, 2 for
    refused input, 130 when interrupted."""
    # Threads of torch that wait do not spin, which takes the cores from other processes. It is read
    # when torch is first imported, by a command, below.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv == ["--version"]:
        with _while_read():
            print(f"interp-compose {__version__}")
        return
    argv = argv or ["--help"]
    if argv and argv[0] in RENAMED:
        name = RENAMED[argv[0]]
        print(f"`interp-compose {argv[0]}` is called `interp-compose {name}` now", file=sys.stderr)
        argv = [name, *argv[1:]]
    if ("--unit", "phrase") in itertools.pairwise(argv):
        print("--unit phrase is --unit constituent now, or text for similarity", file=sys.stderr)
        raise SystemExit(2)
    if argv[:1] == ["phases"]:
        argv = _of_a_task(argv[1:])
    command = None
    with _while_read():
        command = _parsed(_lists(argv))
    if command is None:
        return  # whose help nobody reads on
    from interp_compose.errors import InterpComposeError

    if _is_empty(argv):
        print("OptionError: --out is empty; name a folder (. is this one)", file=sys.stderr)
        raise SystemExit(2)
    try:
        with _kill_is_ctrl_c():
            status = _run(command)
    except InterpComposeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        print(f"\n{_interrupted(command)}", file=sys.stderr)
        raise SystemExit(130) from None
    if status:
        raise SystemExit(status)


def _parsed(argv: Sequence[str]) -> Any:
    """The command; with --paper, all other options have the paper's defaults."""
    name = argv[0]
    known = {**COMMANDS, **NOT_MEASURING}
    if name not in known:
        if not name.startswith("-"):
            from interp_compose.errors import did_you_mean

            meant = (
                did_you_mean(name, [*known, *RENAMED]) or f"; expected one of {', '.join(known)}"
            )
            print(f"interp-compose has no command {name!r}{meant}", file=sys.stderr)
            raise SystemExit(2)
        return tyro.extras.subcommand_cli_from_dict(
            {each: options_of(each) for each in known},
            prog="interp-compose",
            description=ABOUT,
            args=argv,
            registry=READABLE,
        )
    kind = options_of(name)
    given = _with_configs(argv[1:])
    if name in COMMANDS and not any(word.partition("=")[0] == "--out" for word in given):
        given = ["--out", f"out/{name}", *given]
    if {"-h", "--help"} & {*given}:
        _wrap_help(kind)
    prog = f"interp-compose {name}"  # suggestions for a misspelt option are then its own options
    command: Any = tyro.cli(kind, prog=prog, args=given, registry=READABLE)
    preset = command.preset() if hasattr(command, "preset") else None
    if preset is None:
        return command
    # Of an option that is given twice, the last counts.
    paper = Path(str(sys.modules[kind.__module__].__file__)).parents[2]
    stated = read_toml(paper / "settings" / f"{preset}.toml")
    stated.pop("run", None)  # what no option states; the study reads it
    return tyro.cli(kind, prog=prog, args=[*_as_options(stated), *given], registry=READABLE)


def _with_configs(argv: Sequence[str]) -> list[str]:
    """The options, with those that the files of ``--config`` state before all others."""
    stated: list[str] = []
    given: list[str] = []
    words = iter(argv)
    for word in words:
        option, is_one_word, file = word.partition("=")
        if option == "--config":
            stated += _stated_in(Path(file if is_one_word else next(words, "")))
        else:
            given.append(word)
    return [*stated, *given]


def _stated_in(path: Path) -> list[str]:
    """The options of a user's TOML file."""
    try:
        return _as_options(read_toml(path))
    except (OSError, ValueError) as error:
        print(f"--config {path}: {error}; expected a TOML file of options", file=sys.stderr)
        raise SystemExit(2) from error


def _as_options(stated: Mapping[str, Any]) -> list[str]:
    """Options as TOML states them: ``d-mlp = 512``, ``overwrite = true``, ``gammas = [0.5, 0.7]``.
    Names may have underscores, as in Python."""
    options: list[str] = []
    for stated_name, value in stated.items():
        name = stated_name.replace("_", "-")
        if {f"--{name}", f"--no-{name}"} & {*options}:
            raise ValueError(f"{name} is stated twice")
        if isinstance(value, bool):
            options.append(f"--{name}" if value else f"--no-{name}")
        else:
            values = value if isinstance(value, list) else [value]
            options += [f"--{name}", *map(str, values)]
    return _lists(options)


def options_of(name: str) -> Any:
    """The class of a command's options."""
    folder, options = {**COMMANDS, **NOT_MEASURING}[name]
    return pkgutil.resolve_name(f"interp_compose.{folder}.options:{options}")


def _name_of(command: Any) -> str:
    """The command that was given, whose class has its folder's options."""
    kind = type(command)
    every = {**COMMANDS, **NOT_MEASURING}.items()
    place = kind.__module__.removeprefix("interp_compose."), kind.__name__
    return next(name for name, (folder, cls) in every if (f"{folder}.options", cls) == place)


def _wrap_help(command: type) -> None:
    """Let descriptions of options wrap at the terminal's width: tyro keeps the source's lines."""
    from interp_compose.studies.core.keywords import descriptions

    modules = [vars(sys.modules[base.__module__]) for base in command.__mro__]
    for kind in {id(one): one for module in modules for one in module.values()}.values():
        if isinstance(kind, type) and is_dataclass(kind):
            help_texts = descriptions(kind)
            for each in fields(kind):
                each.metadata = MappingProxyType(
                    {**each.metadata, "help": help_texts.get(each.name) or None}
                )


def _lists(argv: Sequence[str]) -> list[str]:
    """Lists as their options read them: those by commas may be given by blanks, and vice versa."""
    words: list[str] = []
    option = ""
    for word in argv:
        if word.startswith("--"):
            option = word
        elif option in BY_BLANKS and "," in word:
            words += filter(None, word.split(","))
            continue
        elif option in BY_COMMAS and not words[-1].startswith("-") and not word.startswith("-"):
            words[-1] += f",{word}"
            continue
        words.append(word)
    return words


def _of_a_task(options: Sequence[str]) -> list[str]:
    """The command that ``phases`` with these options is: another one with ``--task``."""
    for i, word in enumerate(options):
        name, is_whole, task = word.partition("=")
        if name != "--task":
            continue
        command = COMMANDS_OF_TASKS.get(task if is_whole else "".join(options[i + 1 : i + 2]))
        if command is not None:
            rest = options[i + 1 :] if is_whole else options[i + 2 :]
            return [command, *options[:i], *rest]
        return ["task-phases", *options]
    return ["phases", *options]


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
        yield  # only the main thread may handle signals
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted(command: Any) -> str:
    """What is said of a command that was stopped: whether it resumes."""
    from interp_compose.runs.folder import RESUMABLE

    if _name_of(command) in NOT_MEASURING:
        return "Interrupted."
    folder = command.output.out
    if any(next(folder.rglob(kind), None) for kind in RESUMABLE):
        return "Interrupted. Run the same command again to resume."
    return "Interrupted before anything was saved: the same command begins again."


def _run(command: Any) -> int:
    """Carry out a command; the exit status of its result."""
    name = _name_of(command)
    if name in NOT_MEASURING:
        text = pkgutil.resolve_name(f"interp_compose.{NOT_MEASURING[name][0]}.{name}:run")(command)
        with _while_read():
            print(text)
        return 0
    output = command.output
    if output.quiet:
        from transformers.utils import logging

        logging.disable_progress_bar()  # of loading weights
    result = pkgutil.resolve_name(f"interp_compose.{COMMANDS[name][0]}.measure:run")(command)
    is_first = os.environ.get("RANK", "0") == "0"  # of several processes, under torchrun
    with _while_read():
        if isinstance(result, str):  # of a shard: that there is no result yet is said with -q too
            print(result, file=sys.stderr if output.quiet else sys.stdout)
        elif is_first and not output.quiet:
            _show(result, output.out)
    return 0 if isinstance(result, str) else int(result.exit_status)


@contextmanager
def _while_read() -> Iterator[None]:
    """A reader that has enough, such as ``head``, ends the printing and not the command."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(result: StudyResult, out: Path) -> None:
    """What came out, and what was written where."""
    from interp_compose._versions import mixed_versions
    from interp_compose.studies.core.result import REPORT

    summary = result.summary()
    print(summary)
    for note in result.notes:
        if note not in summary:
            print(f"! {note}")
    mixed = mixed_versions(result.versions)
    if mixed:
        print(f"\n! {mixed}")
    figures = [f"{name}.html, {name}.png" for name in result.figures()]
    written = [REPORT, *result.RUNS, *figures, "tables (.parquet, .csv)"]
    print(f"\nwritten to {out}/: {', '.join(written)}")


if __name__ == "__main__":
    main()
