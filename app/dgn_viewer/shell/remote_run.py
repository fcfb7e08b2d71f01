"""Follows a remote run: a thread mirrors it, and the mirror is shown as a live run."""

from __future__ import annotations

import queue
import threading
import traceback
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from dgn_engine.errors import UserError
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.runs import ShowRun
from dgn_engine.storage.remote.served_address import WrongTokenError, address_of
from dgn_engine.storage.runs.folder_layout import runs_root
from dgn_engine.views.event_notices import Kind, Notice, NoticeButton
from dgn_viewer.shell.remote_dialog import RemoteDialog
from dgn_viewer.shell.window_context import WindowContext

_LOOK_MS = 100
_PATIENCE = 5.0  # seconds to wait for the thread to end


@dataclass(frozen=True)
class MirrorWords:
    """Message to the user. `lost`: the connection is lost, or following has failed."""

    text: str
    kind: Kind = "info"
    lost: bool = False
    details: str = ""


@dataclass(frozen=True)
class MirrorReady:
    """The mirror can be shown; it is updated continuously."""

    folder: Path


@dataclass(frozen=True)
class TokenRefused:
    why: str


@dataclass(frozen=True)
class MirrorEnded:
    """Last message of the thread."""


Message = MirrorWords | MirrorReady | TokenRefused | MirrorEnded


class MirrorThread:
    """Thread that mirrors one run into a folder below `below`, without touching Qt."""

    def __init__(self, port: int, token: str, below: Path) -> None:
        """Connect to the served run.

        Raises:
            UserError: The token is wrong, or the run cannot be mirrored.
        """
        from dgn_engine.storage.remote.run_mirror import (
            RunMirror,
        )  # imports http, which few users need

        self._mirror = RunMirror(port, token, below=below)
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._mirror_run, name="dgn-mirror", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drain_messages(self) -> list[Message]:
        messages = []
        while not self._messages.empty():
            messages.append(self._messages.get())
        return messages

    def stop(self) -> None:
        """Ask the thread to end, without waiting."""
        self._stop.set()
        self._mirror.interrupt()

    def wait_for_end(self, patience: float) -> None:
        self._thread.join(patience)

    def _mirror_run(self) -> None:
        from dgn_engine.storage.remote.run_mirror import mirror_until_end

        put = self._messages.put
        try:
            mirror_until_end(self._mirror, self._put_status, self._wait_unless_stopped)
            self._announce_folder()
            if not self._stop.is_set():
                folder = self._mirror.folder
                put(MirrorWords(f"The run has ended; the complete copy is in {folder}."))
        except WrongTokenError as refusal:
            put(TokenRefused(str(refusal)))
        except UserError as refusal:
            put(MirrorWords(str(refusal), "refused", lost=True))
        except OSError as error:
            message = f"Cannot write the run here: {error.strerror or error}."
            put(MirrorWords(message, "refused", lost=True))
        except Exception as error:  # report internal errors
            message = f"Stopped following the run: {error}."
            put(MirrorWords(message, "failed", lost=True, details=traceback.format_exc()))
        finally:
            self._mirror.close()
            put(MirrorEnded())

    def _put_status(self, words: str, lost: bool) -> None:
        if not self._stop.is_set():
            self._messages.put(MirrorWords(words, "refused" if lost else "info", lost))

    def _wait_unless_stopped(self, seconds: float) -> bool:
        self._announce_folder()
        return not self._stop.wait(seconds)

    def _announce_folder(self) -> None:
        if self._mirror.folder is not None and not self._shown:
            self._shown = True
            self._messages.put(MirrorReady(self._mirror.folder))


class RemoteRun(QObject):
    """Asks for address and token, and follows one run at a time."""

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context.window)
        self._context = context
        self._thread: MirrorThread | None = None
        self._dropped = False
        self._address = ""
        self.dialog: RemoteDialog | None = None
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self._handle_messages)

    @property
    def is_following(self) -> bool:
        return self._thread is not None

    def open(self) -> None:
        """Open the dialog to follow a run, or to stop following."""
        dialog = self.dialog
        if dialog is None:
            dialog = self.dialog = RemoteDialog(self._context.window)
            dialog.wanted.connect(self.follow_address)
            dialog.stopped.connect(self.stop)
            dialog.finished.connect(self._delete_dialog)
            if self._address:
                dialog.show_address(self._address)
        dialog.show_following(self.is_following)
        dialog.show()
        dialog.raise_()
        dialog.activateWindow()

    def follow_address(self, address: str, token: str) -> None:
        """Follow the run served at this address, instead of the current one.

        Asks for the token if it is missing or wrong.
        """
        self.stop()
        self._address = address
        try:
            if not token:
                self._ask_token("")
                return
            self._thread = MirrorThread(address_of(address), token, runs_root())
        except WrongTokenError as refusal:
            self._ask_token(str(refusal))
            return
        except UserError as refusal:
            self._show_words(MirrorWords(str(refusal), "refused", lost=True))
            return
        if self.dialog is not None:
            self.dialog.said.show_message(f"Connecting to {address}…")
            self.dialog.show_following(True)
        self._thread.start()
        self._look.start()

    def stop(self) -> None:
        """Stop following; the mirrored part remains as an ordinary run."""
        thread, self._thread = self._thread, None
        self._look.stop()
        self._dropped = False
        if thread is not None:
            thread.stop()
            thread.wait_for_end(_PATIENCE)
        if self.dialog is not None:
            self.dialog.show_following(False)
            self.dialog.said.show_message("")

    # Internal

    def _handle_messages(self) -> None:
        for message in self._thread.drain_messages() if self._thread is not None else ():
            match message:
                case MirrorWords():
                    self._show_words(message)
                case MirrorReady(folder=folder):
                    self._context.send(ShowRun(str(folder)))
                    if self.dialog is not None:
                        self.dialog.accept()
                case TokenRefused(why=why):
                    self.stop()
                    self._ask_token(why)
                case MirrorEnded():
                    self._on_thread_ended()

    def _show_words(self, told: MirrorWords) -> None:
        """Show a message in the dialog, if it is open, and as a notice."""
        self._dropped = told.lost and self.is_following
        if self.dialog is not None:
            if told.lost and not self._dropped:
                self.dialog.said.show_message("")
                self.dialog.said.show_refusal(told.text)
            else:  # lasts until the connection is back
                self.dialog.said.show_message(told.text, "refused" if told.lost else "muted")
        offers = (NoticeButton("Stop following", self.stop, lambda: self._dropped),)
        words = told.text if not told.lost or not self._dropped else f"{self._address}: {told.text}"
        buttons = offers if self._dropped else ()
        self._context.notify(Notice(told.kind, words, told.details, offers=buttons))

    def _on_thread_ended(self) -> None:
        self._dropped = False
        self._thread = None
        self._look.stop()
        if self.dialog is not None:
            self.dialog.show_following(False)

    def _ask_token(self, why: str) -> None:
        self.open()
        assert self.dialog is not None
        self.dialog.show_address(self._address)
        self.dialog.ask_token(why)

    def _delete_dialog(self) -> None:
        if self.dialog is not None:
            self.dialog.deleteLater()
            self.dialog = None
