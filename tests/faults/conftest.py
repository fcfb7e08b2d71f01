"""The table of faults: one for all of `make faults`, printed at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.tables import Table, keep_table


@pytest.fixture(scope="session")
def table() -> Iterator[Table]:
    found = Table()
    yield found
    found.show()
    keep_table(found)
