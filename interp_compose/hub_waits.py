"""What is printed while the hub does not answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LOGGER: Final = "huggingface_hub.utils._http"
FAILED: Final = " thrown while requesting "
AGAIN: Final = ("Retrying in ", "Rate limited. ")


@contextmanager
def told_once() -> Iterator[None]:
    """One line in the place of huggingface_hub's two for each of its tries."""
    printed = False

    def is_new(record: logging.LogRecord) -> bool:
        nonlocal printed
        text = record.getMessage()
        if FAILED not in text and not text.startswith(AGAIN):
            return True
        if printed:
            return False
        printed = True
        record.msg, record.args = (
            f"The hub does not answer ({text.partition(FAILED)[0]}) and is asked again, up to "
            "five times. HF_HUB_OFFLINE=1 reads the cache alone, at once.",
            (),
        )
        return True

    logger = logging.getLogger(LOGGER)
    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)
