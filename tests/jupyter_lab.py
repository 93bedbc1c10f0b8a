"""A notebook in JupyterLab, opened in a headless Chromium, with a kernel of this Python."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.browser import Browser

ROOT = Path(__file__).parents[1]
KERNEL = "of-the-test"
needs_lab = pytest.mark.skipif(
    shutil.which("chromium") is None or shutil.which("jupyter-lab") is None,
    reason="Chromium or JupyterLab is not installed",
)


@contextmanager
def notebook(folder: Path, cells: Sequence[str]) -> Iterator[Browser]:
    """A browser with the notebook, its cells not yet run; ``jupyterapp`` is the page's application.

    Args:
        folder: empty, for the notebook, the kernel's specification and the browser's profile.
        cells: code.
    """
    spec = folder / "jupyter" / "kernels" / KERNEL
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel = {"argv": argv, "display_name": KERNEL, "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(kernel), encoding="utf-8")
    work = folder / "work"
    work.mkdir()
    code: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": []}
    book = {
        "cells": [
            {**code, "execution_count": None, "id": f"cell-{i}", "source": cell}
            for i, cell in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"name": KERNEL, "display_name": KERNEL, "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (work / "book.ipynb").write_text(json.dumps(book), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "JUPYTER_PATH": str(folder / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": str(ROOT),
    }
    options = [
        *("--no-browser", "--allow-root", "--expose-app-in-browser", f"--port={port}"),
        *("--ServerApp.port_retries=0", "--IdentityProvider.token="),
        *(f"--ServerApp.root_dir={work}", "--LabApp.news_url=''"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with (folder / "lab.log").open("w") as log:
        lab = subprocess.Popen(["jupyter-lab", *options], env=environment, stderr=log, stdout=log)
    try:
        address = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{address}/api"), 30, folder / "lab.log")
        with Browser(folder) as browser:
            browser.open(f"{address}/doc/tree/book.ipynb")
            # a kernel that is idle, behind the notebook
            ready = "!!document.querySelector('.jp-Notebook .jp-Cell') && !!window.jupyterapp && "
            ready += (
                "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
            )
            until(lambda: browser.js(ready), 30)
            yield browser
    finally:
        lab.send_signal(signal.SIGINT)
        lab.send_signal(signal.SIGINT)
        try:
            lab.wait(timeout=15)
        except subprocess.TimeoutExpired:
            lab.kill()


def answers(address: str) -> bool:
    """Whether a server is there."""
    try:
        return bool(urlopen(address, timeout=2).status == 200)
    except (URLError, OSError):
        return False


def until(true: Callable[[], Any], seconds: float, log: Path | None = None) -> Any:
    """What ``true`` returns, once that is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(log.read_text(encoding="utf-8")[-2000:] if log else "it did not come")
