"""Fixtures of the library's tests of this kind."""

from tests.tasks.conftest import data_dir as data_dir
