"""Fixtures of the library's tests of this kind."""

from tests.interventions.conftest import each as each, model as model
