"""Shapes and types are checked in every test: jaxtyping's axis names through beartype."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import jaxtyping

import interp_compose._public  # noqa: F401  its checks under the hook would forget sizes they saw
import tests.checked  # the hook looks its type checker up by this name
import tests.long

jaxtyping.jaxtyped = tests.checked.jaxtyped  # the hook's decorator
tests.checked.tag_only_the_library()
jaxtyping.install_import_hook("interp_compose", "tests.checked.checked")

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("untimed", deadline=None)  # machines are shared
hypothesis.settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background jobs
    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes under test heed Ctrl-C

LONGEST = (
    "test_benchmarks.py",
    "test_notebooks.py",
    "test_similarity_bird.py",
    "test_docs.py",
    "test_killed.py",
    "test_killed_writes.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no worker is left alone with one of them at the end."""
    tests.long.mark(items)
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    """Modules and collected tests live to the end: the garbage collector need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def nothing_is_synced() -> Iterator[None]:
    """A killed process loses nothing that the system has; tests/test_files.py looks at what is
    synced, and when."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


PROVEN: dict[str, tuple[Any, Any]] = {}
"""What probes found where all held, and the class of what blocks return, by kind, shape and weights
of a model."""
PROVERS = ("models",)
"""Folders of tests whose every model is proven, as it is for a user."""


@pytest.fixture(autouse=True)
def models_of_one_shape_are_proven_once(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if set(PROVERS) & set(request.path.parts):
        return
    from interp_compose.models import proofs

    prove = proofs.prove_capabilities

    def proven(model: Any, names: Collection[str]) -> Mapping[str, Any]:
        cfg = vars(model.lens.cfg)
        shape = {name: one for name, one in cfg.items() if isinstance(one, (int, float, str))}
        kind = type(model), type(model.lens), model.architecture, model.dtype, model.device
        weights = sum(float(weight.detach().double().abs().sum()) for weight in model.parameters())
        key = f"{kind} {sorted(shape.items())} {weights}"  # NaN where one is
        known, learned = PROVEN.get(key, ({}, None))
        if not set(names) <= set(known):
            found = prove(model, names)
            if all(probe.held for probe in found.values()):
                PROVEN[key] = {**known, **found}, vars(model).get("_block_output")
            return found
        vars(model)["_block_output"] = learned
        return {name: known[name] for name in names}

    monkeypatch.setattr(proofs, "prove_capabilities", proven)


@pytest.fixture(autouse=True, scope="session")
def every_file_is_announced() -> Iterator[None]:
    """Commands look for names in use before they start: a study has to list all of its files."""
    from interp_compose.studies.core import output as run_folder

    real = run_folder.store

    def checked(result: Any, out: Path, others: Any, **options: Any) -> None:
        names = {*others, *(f"{name}.csv" for name in result.frames)}
        missing = names - set(result.files())
        assert not missing, f"add these to TABLES or FIGURES of {type(result)}: {missing}"
        real(result, out, others, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_folder, "store", checked)
        yield
