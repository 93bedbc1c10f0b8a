"""Warnings point at the user's line, wherever in the library they begin."""

from __future__ import annotations

import ast
import linecache
import subprocess
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path

import torch

import interp_compose
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.pool_at import pool_at
from tests.interventions.shared import TOKENS, shared

ROOT = Path(interp_compose.__file__).parent


@torch.no_grad()
def test_warnings_point_at_the_line_of_the_user() -> None:
    model, alone = shared("GPT-2"), torch.arange(7).expand_as(TOKENS)
    with warnings.catch_warnings(record=True) as found, ExitStack() as blocks:
        warnings.simplefilter("always")
        pool_at(model, 1, alone)  # never entered
        with pool_at(model, 1, alone):  # nothing to pool
            model(TOKENS)
        model.train()
        blocks.callback(model.eval)
        blocks.enter_context(mask_attention(model, keys=[0]))  # Python's own code is between
        model(TOKENS)
    lines = [linecache.getline(one.filename, one.lineno).strip() for one in found]
    assert lines == [
        "pool_at(model, 1, alone)  # never entered",
        "with pool_at(model, 1, alone):  # nothing to pool",
        "blocks.enter_context(mask_attention(model, keys=[0]))  # Python's own code is between",
    ]
    assert {one.filename for one in found} == {__file__}


def test_all_warnings_go_through_one_function() -> None:
    others = [
        str(path.relative_to(ROOT))
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
    ]
    assert not others, "use errors.warn"


NOTEBOOK = """
import sys, types
kernel = types.SimpleNamespace(kernel=None)
ipython = types.SimpleNamespace(get_ipython=lambda: kernel)
sys.modules |= {"IPython": ipython, "ipykernel.zmqshell": kernel, "ipywidgets": None}
"""


def test_a_notebook_without_widgets_starts_without_a_warning() -> None:
    said = []
    for first in ("", "import interp_compose\n"):
        command = [sys.executable, "-c", f"{NOTEBOOK}{first}import tqdm.auto"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        said.append(done.stderr)
    assert "IProgress not found" in said[0]
    assert said[1] == ""
