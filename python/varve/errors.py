"""What can go wrong: one class for all of it, and one for each condition a program can act on."""
from __future__ import annotations

import errno as _errno
import os as _os
from typing import Dict, Optional, Type

from . import _lib


class Error(Exception):
    """A call of Varve failed.

    code   the number the C function returned: a VARVE_ code (docs/errors.md), or -errno
    name   the same as a word: "CORRUPT", "ENOSPC", ...
    errno  the number of a system error, or 0
    rank   the rank on which it happened, or -1
    text   what happened, to which object, and what to do
    """

    def __init__(self, code: int, text: str = "", rank: int = -1) -> None:
        super().__init__(code, text, rank)
        self.code = code
        self.rank = rank
        self.name: str = _lib.lib().varve_error_name(code).decode()
        self.text: str = text or _lib.lib().varve_error_text(code).decode()

    @property
    def errno(self) -> int:
        return -self.code if -4096 < self.code < 0 else 0

    def __str__(self) -> str:
        where = f" (on rank {self.rank})" if self.rank >= 0 else ""
        return f"{self.text}{where} [{self.name}]"


class NotFound(Error, KeyError):
    """There is no such store, name, checkpoint, region or array."""


class NoCheckpoint(NotFound):
    """There is no checkpoint of this name."""


class NoStore(NotFound):
    """There is no store at this address."""


class Corrupt(Error):
    """Stored data is damaged."""


class UnknownFormat(Error):
    """Stored by a newer Varve."""


class Busy(Error):
    """Another session writes this name."""


class Fenced(Error):
    """This session was taken for dead, and another one has its name: end this process."""


class Mismatch(Error):
    """What is stored and what is protected differ. Nothing was written."""


class Forgotten(Error):
    """The checkpoint was forgotten meanwhile."""


class BadSetting(Error):
    """A setting is unknown, or has a value that is not allowed."""


class Unsupported(Error):
    """Not in this build, backend or kernel."""


class Disagreed(Error):
    """The ranks gave different values."""


class EarlierFailed(Error):
    """This checkpoint was begun, but the one before failed after its call had returned.

    rank and text are of that failure, and earlier_code is its code. Go on: nothing is missing from the new one.
    """

    earlier_code: int = 0


class BadKey(Error):
    """The store is encrypted and the key is missing or wrong, or it is not encrypted and should be."""


CLASSES: Dict[int, Type[Error]] = {
    _lib.VARVE_NO_CHECKPOINT: NoCheckpoint,
    _lib.VARVE_CORRUPT: Corrupt,
    _lib.VARVE_UNKNOWN_FORMAT: UnknownFormat,
    _lib.VARVE_BUSY: Busy,
    _lib.VARVE_FENCED: Fenced,
    _lib.VARVE_MISMATCH: Mismatch,
    _lib.VARVE_NO_STORE: NoStore,
    _lib.VARVE_FORGOTTEN: Forgotten,
    _lib.VARVE_SETTING: BadSetting,
    _lib.VARVE_UNSUPPORTED: Unsupported,
    _lib.VARVE_DISAGREED: Disagreed,
    _lib.VARVE_EARLIER_FAILED: EarlierFailed,
    _lib.VARVE_KEY: BadKey,
    -_errno.ENOENT: NotFound,
}


def from_c(code: int, error: Optional[_lib.varve_error] = None) -> Error:
    """The exception for what a C function has returned and told."""
    rank = error.rank if error is not None and error.code else -1
    text = _os.fsdecode(error.text) if error is not None and error.code else ""
    made = CLASSES.get(code, Error)(code, text, rank)
    if isinstance(made, EarlierFailed) and error is not None:
        made.earlier_code = error.code
    return made
