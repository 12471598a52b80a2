"""Writing a token file as a stream, in constant memory."""

import contextlib
import hashlib
import json
import os
import struct
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from surefoot.data.tokens import HEADER_SIZE, Header

_ROW = struct.Struct("<QQI")
"""A row of the document table, as :data:`surefoot.data.tokens.TABLE`."""


class TokenWriter:
    """Writes a token file as a stream, in constant memory but for the names of the files.

    ::

        with TokenWriter(path, itemsize=2) as writer:
            writer.add("a.txt", 0, [5, 6, 7, 0])

    Leaving the block writes table and header and flushes the file to disk; leaving it by an error
    leaves a file without a header. The caller chooses a temporary path and renames.

    Args:
        path: must not exist.
        itemsize: bytes of a token number, 2 or 4.
    """

    def __init__(self, path: Path, itemsize: int) -> None:
        self._path = path
        self._dtype = np.dtype(f"<u{itemsize}")
        self._tokens = 0
        self._documents = 0
        self._names: dict[str, int] = {}
        self._digest = hashlib.sha256()

    def __enter__(self) -> "TokenWriter":
        self._file = self._path.open("xb")
        self._spool_path = self._path.with_name(self._path.name + ".table")
        self._spool = self._spool_path.open("x+b")
        self._file.write(bytes(HEADER_SIZE))
        return self

    def add(self, file: str, number: int, tokens: ArrayLike) -> None:
        """Append a document; ``tokens`` ends with the end-of-text token.

        Raises:
            ValueError: if a token number does not fit the item size.
        """
        array = np.asarray(tokens)
        if array.size and not 0 <= array.min() <= array.max() <= np.iinfo(self._dtype).max:
            raise ValueError(f"token numbers of {file} do not fit {self._dtype.name}")
        data = array.astype(self._dtype).tobytes()
        self._digest.update(data)
        self._file.write(data)
        name = self._names.setdefault(file, len(self._names))
        self._spool.write(_ROW.pack(self._tokens, number, name))
        self._tokens += len(array)
        self._documents += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with contextlib.ExitStack() as stack:  # on a full disk, closing may fail as well
            stack.callback(self._spool_path.unlink, missing_ok=True)
            stack.callback(self._spool.close)
            stack.callback(self._file.close)
            if kind is None:
                self._finish()

    def _finish(self) -> None:
        table = hashlib.sha256()
        self._spool.seek(0)
        while piece := self._spool.read(1 << 20):
            table.update(piece)
            self._file.write(piece)
        names = json.dumps(list(self._names)).encode()
        table.update(names)
        self._file.write(names)
        header = Header(
            itemsize=self._dtype.itemsize,
            tokens=self._tokens,
            documents=self._documents,
            names_size=len(names),
            tokens_sha256=self._digest.digest(),
            table_sha256=table.digest(),
        )
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.seek(0)
        self._file.write(header.to_bytes())
        self._file.flush()
        os.fsync(self._file.fileno())
