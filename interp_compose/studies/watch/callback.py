"""A watcher as a callback of Hugging Face's ``Trainer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from interp_compose.models.trained import check_alone

if TYPE_CHECKING:
    from interp_compose.studies.watch.watcher import Watcher


class WatchCallback(TrainerCallback):  # type: ignore[misc]
    """Tells a watcher of every step, in the main process.

    A training that is resumed from a checkpoint goes on in the watcher's rows.
    """

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Raises CapabilityError where the model that is trained is compiled or sharded."""
        check_alone(kwargs["model"])
        if state.is_world_process_zero:
            self.watcher.begin(state.global_step)
            self.watcher(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self.watcher(state.global_step)
