"""For every test: runs are recorded in a folder of the tests, never among the user's own."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A slow machine makes no statement false.
settings.register_profile("facts", deadline=None)
settings.load_profile("facts")


@pytest.fixture(autouse=True)
def runs_of_tests(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `dgn train` writes where no folder is named."""
    place = tmp_path_factory.getbasetemp() / "runs"
    monkeypatch.setenv("DGN_RUNS_ROOT", str(place))
