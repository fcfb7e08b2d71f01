"""Everything that is generated, in the order in which the navigation shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from documentation import (
    command_pages,
    concept_figures,
    experiment_pages,
    library_pages,
    measurement_page,
    panel_gallery,
    refusal_pages,
    typical_values,
)
from documentation.generated_page import BUILD, Generated
from documentation.sample_run import sample_run


def generate(root: Path) -> Iterator[Generated]:
    """Make every generated page and picture; `root` is that of the sources.

    Raises `ValueError` where the pages on concepts quote other numbers than the run shows.
    """
    run = sample_run(root / BUILD)
    if old := typical_values.stale(run):
        raise ValueError("\n".join(old))
    yield from command_pages.generate()
    yield from panel_gallery.generate(run)
    yield from experiment_pages.generate(root)
    yield from library_pages.generate()
    yield from measurement_page.generate(root)
    yield from refusal_pages.generate(root)
    yield from concept_figures.generate(run)
