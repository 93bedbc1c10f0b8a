"""A hub that does not answer is told of in one line."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest

from interp_compose.hub_waits import LOGGER, told_once


def five_tries() -> None:
    for k in range(1, 6):
        logging.getLogger(LOGGER).warning("'no route' thrown while requesting HEAD https://hub/x")
        logging.getLogger(LOGGER).warning(f"Retrying in {k}s [Retry {k}/5].")


def test_tries_are_one_line_and_other_warnings_stay(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    with suppress(OSError), told_once():
        five_tries()
        logging.getLogger(LOGGER).warning("the token is out of date")
        raise OSError("unreachable")
    first, second = caplog.messages
    assert first.startswith("The hub does not answer ('no route') and is asked again")
    assert "HF_HUB_OFFLINE=1" in first
    assert second == "the token is out of date"
    five_tries()
    assert len(caplog.messages) == 12  # outside of the block as ever
