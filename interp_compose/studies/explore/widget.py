"""The widget: it moves states and values between the page and :mod:`.answer`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Final
from weakref import WeakKeyDictionary

import anywidget
import pandas as pd
import traitlets

from interp_compose.errors import OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.explore.answer import about, curve, respond
from interp_compose.studies.explore.state import ExplorerState

PAGE: Final = Path(__file__).parent / "page"
LOCKS: Final[WeakKeyDictionary[LensModel, RLock]] = WeakKeyDictionary()
"""One a model: JupyterLab answers pages in another thread than cells, and a model may be on several
pages."""


class Explorer(anywidget.AnyWidget):
    """The page of :func:`ic.explore`.

    Attributes:
        explored: the model.
    """

    _esm = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in ("view.js", "widget.js"))
    _css = (PAGE / "explore.css").read_text(encoding="utf-8")
    _about = traitlets.Dict().tag(sync=True)
    _state = traitlets.Dict().tag(sync=True)

    def __init__(
        self, model: LensModel, state: ExplorerState, examples: Sequence[tuple[str, str]]
    ) -> None:
        self.explored = model
        self._using = LOCKS.setdefault(model, RLock())
        shown = {**about(model), "examples": [list(example) for example in examples]}
        super().__init__(_about=shown, _state=state.as_json())
        self.on_msg(self._asked)

    @property
    def state(self) -> ExplorerState:
        """What is chosen now; another one that is set is shown."""
        return ExplorerState.from_json(self._state)

    @state.setter
    def state(self, state: Any) -> None:
        if not isinstance(state, ExplorerState):
            raise OptionError(
                f"state={state!r}: expected an ExplorerState, such as "
                "dataclasses.replace(explorer.state, layer=1)"
            )
        self._state = state.as_json()

    @property
    def curve(self) -> pd.DataFrame:
        """The curve of :attr:`state`: columns layer, pooling, value (log P of the answer in nats;
        of an encoder, the cosine), of the model as it is now."""
        with self._using:
            return curve(self.explored, self.state)

    def __repr__(self) -> str:
        return f"Explorer({self.explored.name!r}, text={self.state.text!r})"

    def _asked(self, widget: Any, request: Any, buffers: Any) -> None:
        with self._using:
            reply = respond(self.explored, request)
        self.send({"id": request.get("id") if isinstance(request, dict) else None, **reply})
