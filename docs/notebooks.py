"""Runs the notebooks and keeps what they show: ``python -m docs.notebooks``.

What a cell prints to stderr (bars, remarks of libraries) is not kept, and neither are times, so
that the same numbers give the same file.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from traitlets import default

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
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


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook after a run in a fresh kernel, whose working directory is ``folder``.

    Raises ``CellExecutionError``, with the traceback, where a cell does.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_manager_class=Kernel,
        timeout=120,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute(env=os.environ | OFFLINE)
    return notebook


def main() -> None:
    """Run every notebook and write it back with its outputs."""
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(path, Path(folder))
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
        notebook.metadata.language_info = {"name": "python"}
        temporary = path.with_suffix(".tmp")
        nbformat.write(notebook, temporary)
        os.replace(temporary, path)
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
