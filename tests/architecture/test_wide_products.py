"""Of a wide product each value of each parameter runs once at a push, whatever its values are."""

from __future__ import annotations

from pathlib import Path

import pytest

PRODUCT = """
import pytest

@pytest.mark.wide
@pytest.mark.parametrize("one", [{"a": 1}, [2], (3,), None, float, "word"])
@pytest.mark.parametrize("other", [{"b": 1}, lambda: 0.5, lambda: 1])
def test_product(one, other):
    seen.append((one, other))
"""


class Items:
    """Keeps what was collected."""

    found: list[pytest.Item]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.found = session.items


def test_each_value_of_a_wide_product_runs_at_a_push_and_no_case_more(tmp_path: Path) -> None:
    module, items = tmp_path / "test_product.py", Items()
    module.write_text(PRODUCT)
    alone = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-p", "tests.conftest", "-n", "0"]
    config = Path(__file__).parents[2] / "pyproject.toml"
    pytest.main([*alone, "-c", str(config), str(module)], plugins=[items])
    assert len(items.found) == 6
