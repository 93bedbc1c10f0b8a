"""The proofs against the newest transformers and transformer-lens, past this library's bounds.

``python -m tests.newest`` (``make test-newest``) puts the newest releases of both that the registry
gives into an environment of its own, where everything else, torch too, is this environment's, and
audits small models in both. What holds here and not there is printed as a warning, by the name of
the capability: the next release that changes what is computed is seen before it is allowed. Nothing
of it fails, and without a registry nothing is tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
import venv
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
NEWEST = ("transformers", "transformer-lens")
SHIPPED = ("mini-base", "mini-idm")
MODELS = (*SHIPPED, "Llama", "Gemma 2", "OPT", "BLOOM", "Mixtral", "CodeGen", "BERT", "T5", "BART")
SECONDS = {"install": 90, "audits": 400}
"""The most that each step may take; on an idle core all of it takes about a minute."""
STATUSES = ("holds", "not tried", "silent", "refused", "discarded", "wrong")
"""From the best to the worst."""
REQUIRED = """
from importlib.metadata import requires
from packaging.requirements import Requirement
for package in {packages}:
    for one in map(Requirement, requires(package) or ()):
        if one.marker is None or one.marker.evaluate(dict(extra="")):
            if one.name not in {left}:
                one.marker = None
                print(one)
"""
"""Prints what packages require, without each other and torch."""

Statuses = Mapping[str, Mapping[str, tuple[str, str]]]
"""By model and check: status and detail."""


def statuses() -> Statuses:
    """What audits of all models find with the packages of this process."""
    from interp_compose.models.capabilities import MEANING
    from interp_compose.studies.audit.measure import audit
    from tests import architectures

    names = {meaning: name for name, meaning in MEANING.items()}
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for model in MODELS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                source = model if model in SHIPPED else architectures.build(model)
                frame = audit(source, quick=True, progress=False).frame
            except Exception as error:  # noqa: BLE001 - whatever a release breaks
                found[model] = {"loading": ("wrong", f"{type(error).__name__}: {error}")}
                continue
        found[model] = {
            names.get(row["check"], row["check"]): (row["status"], row["detail"])
            for row in frame.to_dict("records")
        }
    return found


def worse(here: Statuses, there: Statuses) -> Iterator[str]:
    """A line for each check that a newer release makes worse, named by its capability where it is
    one's; of a model that is refused as a whole, one line."""
    for model, checks in there.items():
        for check, (status, detail) in checks.items():
            before = here[model].get(check, ("holds", ""))[0]
            if STATUSES.index(status) > STATUSES.index(before):
                yield f"{model}: {check!r} was {before!r} and is {status!r} ({detail[:160]})"


def make_environment(folder: Path) -> Path:
    """An interpreter that finds the newest releases first, and this environment's packages next.

    Raises:
        subprocess.SubprocessError: the registry does not answer, or not in time.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    own = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", 20))
    (own / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    constraint = folder / "constraints.txt"
    constraint.write_text(f"torch=={version('torch').partition('+')[0]}\n")
    pip = ("-m", "pip", "install", "--quiet", "--no-compile", "--retries=1", "--timeout=10")
    _run(python, *pip, "--upgrade", "--no-deps", *NEWEST, SECONDS["install"])
    needed = _run(
        python, "-c", REQUIRED.format(packages=NEWEST, left=(*NEWEST, "torch")), 20
    ).splitlines()
    _run(python, *pip, "-c", str(constraint), *needed, SECONDS["install"])
    return python


def _run(*command: object) -> str:
    """What a command prints; the last argument is how many seconds it may take."""
    *words, seconds = command
    done = subprocess.run(
        [str(word) for word in words],
        cwd=ROOT,
        timeout=float(str(seconds)),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def main() -> None:
    """Print what is worse; never fail."""
    if sys.argv[1:] == ["statuses"]:
        versions = {name: version(name) for name in NEWEST}
        print(json.dumps([versions, statuses()]))
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            python = make_environment(Path(folder) / "newest")
            found = []
            for one in (sys.executable, python):
                printed = _run(one, "-m", "tests.newest", "statuses", SECONDS["audits"])
                found.append(json.loads(printed.splitlines()[-1]))
        except (subprocess.SubprocessError, OSError, ValueError, IndexError) as failed:
            said = (getattr(failed, "stderr", "") or "").strip().splitlines()[-1:]
            print(f"WARNING: the newest {' and '.join(NEWEST)} were not tried: {failed} {said}")
            return
    (_, here), (versions, there) = found
    told = " and ".join(f"{name} {one}" for name, one in versions.items())
    lines = list(worse(here, there))
    for line in lines:
        print(f"WARNING: with {told}, {line}")
    print(f"With {told}, {len(lines)} checks of {len(MODELS)} models are worse than in .venv.")


if __name__ == "__main__":
    main()
