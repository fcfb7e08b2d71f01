"""The form of a run: fields for a `RunConfig`, generated from its declared settings."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QWidget

from dgn_engine.config import PARTS, SETTINGS, NetConfig, RunConfig
from dgn_engine.config.setting import Conditions, Setting, meets_condition
from dgn_engine.errors import UserError
from dgn_engine.protocol.catalogue import Catalogue, DataEntry, NetEntry
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.widgets.collapsible import Collapsible
from dgn_viewer.widgets.form_fields import PathField, PickBox, change_signal, problem_in, value_of
from dgn_viewer.widgets.form_section import Holds, SettingSection
from dgn_viewer.widgets.grouped_box import regime_choices
from dgn_viewer.widgets.layouts import make_column, plain_label

_TITLES = {"data": "Data", "net": "Network", "gating": "Gating", "training": "Training", "": "Run"}


class RunForm(QWidget):
    """A form for a `RunConfig`, with irrelevant rows hidden and advanced rows folded.

    `fields` maps places ('gating.beta') to fields. `changed` is emitted after every edit, valid or
    not.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._catalogue = Catalogue((), (), (), (), ())
        self._wiring: tuple[int, ...] = ()
        self.keep_wiring = QCheckBox()
        rows = {part: _setting_rows(part, advanced=False) for part in _TITLES}
        self.data = DataSection(_TITLES["data"], rows["data"])
        self.net = PlugInSection(_TITLES["net"], rows["net"][:1])
        weights = SettingSection("", rows["net"][1:])
        self.net.append_section(weights)
        self._basic: dict[str, SettingSection] = {"data": self.data, "net": self.net}
        for part in ("gating", "training", ""):
            self._basic[part] = SettingSection(_TITLES[part], rows[part])
        self._basic["gating"].add_field("", self.keep_wiring)
        self._folded = {
            part: SettingSection(title, _setting_rows(part, advanced=True))
            for part, title in (_TITLES | {"gating": "Gates"}).items()
            if _setting_rows(part, advanced=True)
        }
        self._sections = [*self._basic.items(), ("net", weights), *self._folded.items()]
        self.fields = {
            f"{part}.{name}" if part else name: field
            for part, section in self._sections
            for name, field in section.fields.items()
        }
        self.advanced = self._lay_out()
        for compared_place in {
            "data.name",
            "gating.regime",
            *_condition_places(),
        } & self.fields.keys():
            change_signal(self.fields[compared_place]).connect(self._show_rows)
        self.advanced.button.toggled.connect(self._show_unusual)
        options = (self.data.options, self.net.options)
        for section in (*(section for _, section in self._sections), *options):
            section.changed.connect(self.changed)
        self.keep_wiring.toggled.connect(self.changed)
        self._show_rows()

    def offer_catalogue(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.data.offer_entries(catalogue.data)
        self.net.offer_entries(catalogue.nets)
        self._pick_box("gating.regime").offer_choices(regime_choices(catalogue.regimes))
        devices = dict.fromkeys(("auto", *catalogue.devices))
        self._pick_box("device").set_entries([(name, name) for name in devices])
        self._show_rows()

    def set_theme(self, theme: Theme) -> None:
        for field in (*self.fields.values(), self.data.folder, self.advanced):
            if isinstance(field, (PathField, Collapsible)):
                field.set_theme(theme)

    def show_config(self, config: RunConfig) -> None:
        """Show a configuration, and unfold the advanced rows if any differs from its default."""
        for part, section in self._sections:
            section.show_values(vars(getattr(config, part) if part else config))
        self._show_wiring(config.gating.wiring)
        self.advanced.set_open(bool(self._unusual_settings()))
        self._show_rows()

    def read_run_config(self) -> RunConfig:
        """Return the configuration in the form.

        Raises:
            UserError: A field is invalid; the error has the field's place.
        """
        values: dict[str, dict[str, Any]] = {part: {} for part in SETTINGS}
        for part, section in self._sections:
            values[part] |= section.values(self._meets_conditions)
        values["gating"]["wiring"] = self._wiring if self.keep_wiring.isChecked() else ()
        parts = {part: kind(**values[part]) for part, kind in PARTS.items()}
        return RunConfig(**parts, **values[""])

    @property
    def problem(self) -> str:
        """The problem of the first invalid field, or ''."""
        return problem_in(self)

    def _show_rows(self) -> None:
        for _, section in self._sections:
            section.show_rows(self._meets_conditions)
        wired = bool(self._wiring) and self._meets_conditions({"regime.own_gates": False})
        self._basic["gating"].show_row(self.keep_wiring, wired)

    def _meets_conditions(self, conditions: Conditions) -> bool:
        return all(
            meets_condition(self._condition_value(place), expected)
            for place, expected in conditions.items()
        )

    def _condition_value(self, place: str) -> object:
        subject, _, name = place.partition(".")
        if subject == "dataset":
            return getattr(self.data.entry, name, False)
        if subject == "regime":
            chosen = self._pick_box("gating.regime").value()
            regime = next((e for e in self._catalogue.regimes if e.id == chosen), None)
            return getattr(regime, name, False)
        return value_of(self.fields[place])

    def _show_wiring(self, wiring: tuple[int, ...]) -> None:
        is_identity = wiring == tuple(range(len(wiring)))
        self._wiring = () if is_identity else wiring
        self.keep_wiring.setChecked(not is_identity)
        order = " ".join(str(layer + 1) for layer in wiring)
        self.keep_wiring.setText(f"keep the gate order {order}")

    def _unusual_settings(self) -> list[str]:
        return [name for section in self._folded.values() for name in section.describe_changes()]

    def _show_unusual(self) -> None:
        names = self._unusual_settings()
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self.advanced.set_note(f"{names[0]}{more}" if names else "")

    def _pick_box(self, place: str) -> PickBox:
        box = self.fields[place]
        assert isinstance(box, PickBox)
        return box

    def _lay_out(self) -> Collapsible:
        page = QWidget()
        make_column(*self._folded.values(), into=page, spacing=16)
        advanced = Collapsible("Advanced", page)
        make_column(
            *self._basic.values(), advanced, 1, into=self, margins=(16, 4, 16, 12), spacing=16
        )
        return advanced


class PlugInSection(SettingSection):
    """The settings of a plug-in, selected by 'name', followed by its options."""

    def __init__(self, title: str, settings: Sequence[Setting]) -> None:
        super().__init__(title, settings)
        self._entries: Sequence[DataEntry | NetEntry] = ()
        self.options = SettingSection()
        self.options.replace_settings(())
        self.append_section(self.options)
        self.name.currentIndexChanged.connect(self._show_chosen)

    @property
    def name(self) -> PickBox:
        box = self.fields["name"]
        assert isinstance(box, PickBox)
        return box

    @property
    def entry(self) -> DataEntry | NetEntry | None:
        return next((e for e in self._entries if e.id == self.name.value()), None)

    def offer_entries(self, entries: Sequence[DataEntry | NetEntry]) -> None:
        self._entries = entries
        self.name.set_entries([(entry.id, entry.title) for entry in entries])
        self._show_chosen()

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show these values; offer a network from a file, which no catalogue lists, from now on."""
        name = values["name"]
        if self.name.findData(name) < 0 and NetConfig(name).is_from_file:
            title = f"network from {NetConfig(name).display_name}"
            self.name.addItem(title, name)
            self.name.setItemData(
                self.name.count() - 1, wrapping_tip(title), Qt.ItemDataRole.ToolTipRole
            )
        super().show_values(values)
        self._show_chosen()
        self.options.show_values(dict(values["options"]))

    def values(self, holds: Holds = operator.not_) -> dict[str, Any]:
        """Return the values and options in the fields; raise `UserError` if one is invalid."""
        return super().values(holds) | {"options": tuple(self.options.values().items())}

    def _show_chosen(self) -> None:
        self.options.replace_settings(self.entry.options if self.entry else ())


class DataSection(PlugInSection):
    """The settings of a `DataConfig`, with a download hint and a folder field."""

    def __init__(self, title: str, settings: Sequence[Setting]) -> None:
        name, download, *others = settings
        super().__init__(title, [name])
        self.hint = plain_label(role="small")
        self.folder = PathField("Folder or archive of images", "class-named folders", folder=True)
        self.add_field("", self.hint)
        self.add_settings([download])
        self.add_field("folder", self.folder)
        self.add_settings(others)
        self._show_chosen()

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show these values, with the path split from the name."""
        name, _, path = values["name"].partition(":")
        self.folder.show_value(path)
        super().show_values({**values, "name": name})

    def values(self, holds: Holds = operator.not_) -> dict[str, Any]:
        """Return the values, with the path appended to the name; raise `UserError` if invalid."""
        values, path = super().values(holds), self.folder.value()
        if holds({"dataset.takes_path": True}):
            if not path:
                raise UserError("No folder chosen: choose a folder or archive of images.")
            values["name"] += f":{path}"
        return values

    def _show_chosen(self) -> None:
        super()._show_chosen()
        entry = self.entry
        self.hint.setText(entry.hint if isinstance(entry, DataEntry) and entry.missing else "")
        self.show_row(self.hint, bool(self.hint.text()))
        self.show_row(self.folder, isinstance(entry, DataEntry) and entry.takes_path)


def _setting_rows(part: str, *, advanced: bool) -> list[Setting]:
    """Return the settings of a part that have a row, in order."""
    rows = [s for s in SETTINGS[part].values() if s.label and s.advanced == advanced]
    return sorted(rows, key=lambda setting: setting.order)


def _condition_places() -> set[str]:
    """Return the places that conditions of other settings refer to."""
    settings = [setting for part in SETTINGS.values() for setting in part.values()]
    return {place for setting in settings for place in (*setting.when, *setting.shown)}
