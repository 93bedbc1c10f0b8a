"""``pytest --interp-compose-audit MODEL``: an audit as a test of another project.

pytest imports this module wherever the library is installed: what is heavy is imported by the test.
"""

from __future__ import annotations

import warnings

import pytest

OPTION = "--interp-compose-audit"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options."""
    group = parser.getgroup("interp_compose")
    group.addoption(
        OPTION,
        action="append",
        default=[],
        metavar="MODEL",
        help="audit a model (name or folder) as a test that fails on a finding; may be repeated",
    )
    group.addoption(
        f"{OPTION}-quick",
        action="store_true",
        help="the model alone: leave out single hook points and torch.compile",
    )


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """A test for each model, after all others."""
    quick = config.getoption(f"{OPTION}-quick".lstrip("-").replace("-", "_"))
    for model in dict.fromkeys(config.getoption(OPTION)):
        item = AuditTest.from_parent(session, name=f"interp_compose_audit[{model}]")
        item.model, item.quick = model, quick
        items.append(item)


class AuditTest(pytest.Item):
    """Fails on a finding, and where the model is refused as a whole."""

    model: str
    quick: bool

    def runtest(self) -> None:
        """The audit; its words are the failure's."""
        import interp_compose as ic

        with warnings.catch_warnings():  # a project may make errors of them
            warnings.simplefilter("ignore")
            try:
                found = ic.audit(self.model, quick=self.quick, progress=False)
            except ic.errors.InterpComposeError as error:
                pytest.fail(f"{type(error).__name__}: {error}", pytrace=False)
        if found.exit_status:
            pytest.fail(found.summary(), pytrace=False)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where a failure is said to be: the option."""
        return OPTION, None, self.name
