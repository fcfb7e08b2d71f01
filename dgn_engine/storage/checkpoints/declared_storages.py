"""The storages that the pickle of a torch file refers to: each key means one of them.

torch keeps what the first reference to a key describes and gives it to the later ones, whatever
they describe (`persistent_load` in `torch/serialization.py`).
"""

from __future__ import annotations

from typing import Any

from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.pickled_tensors import TensorStorage, storage


class DeclaredStorages:
    """`by_key`: the storages that were referred to up to now."""

    def __init__(self) -> None:
        self.by_key: dict[str, TensorStorage] = {}
        self._views: dict[str, tuple[Any, ...]] = {}

    def storage(self, reference: Any) -> Any:
        """The storage that a reference out of the pickle names; raises `UnreadableFile`, also where
        its key was described in another way before."""
        store = storage(reference)
        if not isinstance(store, TensorStorage):
            return store
        known = self.by_key.setdefault(store.key, store)
        described = (known.dtype, known.count, known.where), (store.dtype, store.count, store.where)
        if described[0] != described[1] and (known.count or store.count):
            raise UnreadableFile("describes one storage in two ways")
        view = reference[5] if len(reference) == 6 else None
        if view is not None:
            self._add_view(store, *view)
        return store

    def check_views(self) -> None:
        """Raise `UnreadableFile` where a key is that of a storage and of a view on one."""
        if self._views.keys() & self.by_key.keys():
            raise UnreadableFile("describes one storage in two ways")

    def _add_view(self, store: TensorStorage, key: Any, first: Any, size: Any) -> None:
        if type(key) is not str or type(size) is not int:
            raise UnreadableFile("refers out of its pickle to a view that makes no sense")
        view = store.key, store.dtype, first, size
        if self._views.setdefault(key, view) != view:
            raise UnreadableFile("describes one view on a storage in two ways")
