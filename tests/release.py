"""Whether what would be published installs and works: ``python -m tests.release`` (``make
release``).

Builds the source distribution and the wheel into ``out/dist``, checks them, and twice installs the
wheel alone in a new environment outside this folder: with the lowest versions of the packages that
``pyproject.toml`` requires, and with the highest that pip finds. There README's ten lines and
``interp-compose audit --quick`` run. torch is in both of the version that ``constraints.txt`` pins,
since others are large downloads (Linux' default build brings CUDA): ``--torch ""`` leaves it to
pip, whose index can be set as usual (``PIP_EXTRA_INDEX_URL``).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DIST = ROOT / "out" / "dist"
ENDS = ("lowest", "highest")
LARGEST = 5 * 2**20
"""Bytes of a file, at most."""
INSIDE = (
    "py.typed",
    "__init__.pyi",
    "shipped/mini-base/model.safetensors",
    "shipped/mini-idm/model.safetensors",
    "shipped/carma_paper.csv",
    "tasks/mini/world.txt",
    "tasks/mini/definitions.txt",
    "studies/core/report.html",
    "studies/explore/page/view.js",
    "papers/complexity/settings/phases_fig3.toml",
)
"""Some of what lies beside the modules; that all of it is there is compared with Git."""
EVERY_MODULE = """
import importlib, pkgutil, nltk, spacy, einops, interp_compose
extras = ("interp_compose.pytest_plugin", "interp_compose.studies.explore.widget")
for each in pkgutil.walk_packages(interp_compose.__path__, "interp_compose."):
    if each.name not in extras and not each.name.endswith("__main__"):
        importlib.import_module(each.name)
"""
"""All of the library but what an extra or pytest brings can be imported."""
FOREIGN = ("tests", "docs", "notebooks", "benchmarks", "out", ".venv")
"""Folders that no wheel has."""


def main() -> None:
    """Build, check, install and run, and print what each took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("ends", nargs="*", default=ENDS, help="lowest, highest (both)")
    parser.add_argument("--torch", default=pinned("torch"), help="version of torch (%(default)s)")
    given = parser.parse_args()
    if unknown := set(given.ends) - {*ENDS}:
        parser.error(f"{', '.join(sorted(unknown))}: expected lowest, highest or both")
    source, wheel = built()
    check_wheel(files_of_wheel(wheel), tracked())
    check_source(files_of_source(source))
    print(f"{wheel.name} ({wheel.stat().st_size / 2**20:.1f} MB): files as they should be")
    for end in given.ends:
        tried(wheel, end, given.torch)


# ---- what is built --------------------------------------------------------------------------


def built() -> tuple[Path, Path]:
    """A new source distribution, and the wheel that is built of it; twine has checked both."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (source,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", source, wheel)
    return source, wheel


def files_of_wheel(wheel: Path) -> dict[str, int]:
    """Bytes of each file in it."""
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.file_size for each in archive.infolist()}


def files_of_source(source: Path) -> dict[str, int]:
    """Bytes of each file in it, without the folder in which all of them lie."""
    with tarfile.open(source) as archive:
        return {each.name.partition("/")[2]: each.size for each in archive if each.isfile()}


def tracked() -> set[str]:
    """The files of the package that Git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "interp_compose"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(listed.stdout.split())


def check_wheel(files: Mapping[str, int], package: set[str]) -> None:
    """Refuse a wheel that lacks a file of the package or the licence, or has another file.

    Raises:
        SystemExit: names what is missing, foreign or too large.
    """
    about = {name for name in files if ".dist-info/" in name}
    expected = package | {f"interp_compose/{name}" for name in INSIDE}
    refuse("the wheel lacks", expected - set(files))
    refuse("the wheel has", set(files) - package - about)
    refuse("the wheel has folders", {n for n in files if n.partition("/")[0] in FOREIGN})
    if not any(name.endswith("/licenses/LICENSE") for name in about):
        refuse("the wheel lacks", {"LICENSE"})
    refuse(f"larger than {LARGEST:,} bytes:", too_large(files))


def check_source(files: Mapping[str, int]) -> None:
    """Refuse a source distribution without the licence, or with what is no source.

    Raises:
        SystemExit: names what is missing, foreign or too large.
    """
    needed = {"LICENSE", "README.md", "pyproject.toml", *(f"interp_compose/{n}" for n in INSIDE)}
    refuse("the source distribution lacks", needed - set(files))
    made = {n for n in files if re.match(r"out/|\.venv|docs/_build/|.*__pycache__", n)}
    refuse("the source distribution has", made)
    refuse(f"larger than {LARGEST:,} bytes:", too_large(files))


def too_large(files: Mapping[str, int]) -> set[str]:
    return {name for name, size in files.items() if size > LARGEST}


def refuse(what: str, names: set[str]) -> None:
    if names:
        raise SystemExit(f"{what} {', '.join(sorted(names))}")


# ---- what is installed ----------------------------------------------------------------------


def pinned(package: str) -> str:
    """The version that constraints.txt gives."""
    (found,) = re.findall(
        rf"^{package}==(.*)$", (ROOT / "constraints.txt").read_text("utf-8"), re.M
    )
    return str(found)


def lowest(requirements: Sequence[str]) -> Iterator[str]:
    """A constraint for each requirement: its lower bound, and no other version.

    Raises:
        SystemExit: a requirement without a lower bound.
    """
    for line in requirements:
        needed, _, marker = line.partition(";")
        if not (bound := re.match(r"\s*([\w.-]+)\s*(?:[^>]*,)?\s*>=\s*([\w.]+)", needed)):
            raise SystemExit(f"pyproject.toml requires {line!r}: expected a lower bound, >=")
        yield f"{bound[1]}=={bound[2]}" + (f" ; {marker.strip()}" if marker else "")


def constraints(end: str, torch: str) -> list[str]:
    """What pip may install: torch of this version, and at the lowest end the bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    bounds = list(lowest(project["dependencies"])) if end == "lowest" else []
    others = [one for one in bounds if not torch or one.partition("==")[0] != "torch"]
    return [*others, *([f"torch=={torch}"] if torch else [])]


def tried(wheel: Path, end: str, torch: str) -> None:
    """The wheel in an environment of its own: README's ten lines, and the audit of a model."""
    with tempfile.TemporaryDirectory(prefix=f"release-{end}-") as there:
        folder, start = Path(there), time.monotonic()
        venv.create(folder / "venv", with_pip=True)
        bounds = folder / "constraints.txt"
        bounds.write_text("\n".join(constraints(end, torch)) + "\n", encoding="utf-8")
        python = folder / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "-c", bounds, wheel, cwd=folder)
        installed = time.monotonic()
        run(python, "-W", "ignore", "-c", EVERY_MODULE, cwd=folder)
        run(python, "-W", "ignore", "-c", ten_lines(), cwd=folder)
        command = folder / "venv" / "bin" / "interp-compose"
        run(command, "audit", "--model", "mini-idm", "--quick", "--out", "audit", cwd=folder)
        print(
            f"{end}: installed in {installed - start:.0f} s, README's lines and an audit in "
            f"{time.monotonic() - installed:.0f} s"
        )


def ten_lines() -> str:
    """README's first Python."""
    return (ROOT / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]


def run(*command: object, cwd: Path = ROOT) -> None:
    """A command that must succeed, without what this environment's variables bring to imports.

    Raises:
        SystemExit: it does not.
    """
    words = [str(word) for word in command]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    offline = {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    if code := subprocess.run(words, cwd=cwd, env={**kept, **offline}).returncode:
        raise SystemExit(f"{' '.join(words)[:200]} ended with status {code}")


if __name__ == "__main__":
    main()
