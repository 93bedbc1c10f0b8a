"""Progress bars, and what a log gets instead: a line at each tenth of the work."""

from __future__ import annotations

import sys
from typing import Any, Final

from tqdm.auto import tqdm
from tqdm.std import tqdm as plain_tqdm

from interp_compose.notebook import in_notebook

LINE: Final = (
    "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)


def progress_bar(*args: Any, **options: Any) -> plain_tqdm[Any]:
    """tqdm's bar in a notebook or a terminal; :class:`Lines` where stderr is a file or a pipe."""
    kind: Any = tqdm if in_notebook() or sys.stderr.isatty() else Lines
    bar: plain_tqdm[Any] = kind(*args, **options)
    return bar


class Lines(plain_tqdm):  # type: ignore[type-arg]
    """A bar that writes a line where it begins, at each tenth, and where it ends."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._tenth, self._written = -1, -1.0
        options |= {"leave": False, "bar_format": LINE}
        super().__init__(*args, **options)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Nothing is ever erased, which is what a ``msg`` would do."""
        tenth = int(10 * self.n / self.total) if self.total else 0
        if msg is None and tenth > self._tenth:
            self._write(tenth)

    def close(self) -> None:
        """The last line, unless it is written already."""
        if not getattr(self, "disable", True) and self.n != self._written:
            self._write(self._tenth)
        super().close()

    def _write(self, tenth: int) -> None:
        self._tenth, self._written = tenth, self.n
        print(self, file=self.fp, flush=True)
