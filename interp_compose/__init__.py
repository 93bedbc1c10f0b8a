"""interp_compose: how, and where, does a transformer compose meaning?

>>> import interp_compose as ic
>>> model = ic.load_model("mini-idm")
>>> task = ic.load_task("mini-idm", model)
>>> curve = ic.cap_curve(model, task.test)
>>> curve.frame, curve.plot()

The public names are those of ``__init__.pyi``. They are imported when they are first used, so that
``import interp_compose`` is quick.
"""

import warnings
from pathlib import Path
from typing import Any

import lazy_loader

from interp_compose.notebook import in_notebook

if in_notebook():
    with warnings.catch_warnings():
        # without ipywidgets bars are lines of text, of which tqdm would warn in the first cell
        warnings.filterwarnings("ignore", message="IProgress not found")
        import tqdm.auto  # noqa: F401

_named, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
PAPERS = tuple(
    paper
    for paper in ("carma", "complexity", "lrf", "cat")
    if (Path(__file__).parent / "papers" / paper).is_dir()  # each may be deleted
)


def __getattr__(name: str) -> Any:
    try:
        return _named(name)
    except AttributeError as error:
        from interp_compose.errors import did_you_mean

        where = [f"ic.{paper}.{name}" for paper in PAPERS if name in _named(paper).__all__]
        hint = f"; it is {' or '.join(where)}" if where else did_you_mean(name, __all__)
        # obj=None: Python, which knows names by obj, would add the same question
        raise AttributeError(f"{error}{hint}", name=name, obj=None) from None
