"""A source: where it looks for files, how it reads them, and what identifies its state on disk."""

import hashlib
import json
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from surefoot.data.sources.document import Document, Reading, SourceFile, Texts
from surefoot.data.sources.find import Listing, list_files, list_stdlib
from surefoot.data.sources.jsonl import read_jsonl
from surefoot.data.sources.parquet import read_parquet
from surefoot.data.sources.stored import COMPRESSIONS
from surefoot.data.sources.text import read_python, read_text
from surefoot.errors import DataError
from surefoot.recipe import DataSource
from surefoot.recipe.words import printable

Reader = Callable[[SourceFile, Reading], Texts]

_READERS: dict[str, Reader] = {
    ".txt": read_text,
    ".md": read_text,
    ".py": read_text,
    ".jsonl": read_jsonl,
}
KNOWN = ".txt .md .py .jsonl (each also .gz or .zst) and .parquet"


def reader_of(name: str) -> Reader | None:
    """What reads a file of this name; None if its kind is unknown."""
    path = Path(name.lower())
    if path.suffix == ".parquet":
        return read_parquet
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return _READERS.get(path.suffix)


class Source:
    """Documents from one ``[[data.sources]]`` table, in an order that never changes.

    ::

        source = Source(DataSource(kind="files", path="corpus"))
        for document in source.documents():
            print(document.file, document.number, len(document.text))

    Files are sorted by name and read one after the other, as streams. Documents without text are
    left out. The listing is made once, when the source is opened.

    Args:
        settings: the table of the recipe.
        errors: policy for bytes that are not UTF-8.

    Raises:
        DataError: if the source names no readable file.
    """

    def __init__(
        self, settings: DataSource, errors: Literal["strict", "replace"] = "strict"
    ) -> None:
        self.settings = settings
        self.reading = Reading(errors=errors, text_field=settings.text_field)
        self.name = printable(settings.path or settings.kind)
        self.listing = self._list()
        if not self.listing.files:
            raise DataError(f"{self.name}: no file to read here; known kinds are {KNOWN}")

    def _list(self) -> Listing:
        if self.settings.kind == "stdlib":
            return list_stdlib(Path(sysconfig.get_path("stdlib")))
        if self.settings.path is None:
            raise DataError('a source of kind "files" needs a path: a folder, file or glob')
        return list_files(self.settings.path, lambda name: reader_of(name) is not None, KNOWN)

    def _reader(self, file: SourceFile) -> Reader:
        reader = read_python if self.settings.kind == "stdlib" else reader_of(file.name)
        assert reader is not None, file
        return reader

    def rows(self) -> Iterator[tuple[str, int, str | None]]:
        """File name, number and text (None or "": no text) of every row, streamed.

        ``max_bytes`` ends it after the row that reaches it.

        Raises:
            DataError: naming the file and the place, for what cannot be read.
        """
        left = self.settings.max_bytes
        for file in self.listing.files:
            for number, text in self._reader(file)(file, self.reading):
                yield file.name, number, text
                if left is not None:
                    left -= len((text or "").encode())
                    if left <= 0:
                        return

    def documents(self) -> Iterator[Document]:
        """All rows with text, streamed."""
        for file, number, text in self.rows():
            if text:
                yield Document(file, number, text)

    def fingerprint(self) -> tuple[str, int]:
        """Hash of the settings and of every file's name, size and modification time.

        Returns:
            The hash, and the newest modification time in nanoseconds. Equal hashes are taken for
            equal contents; that a file was altered in place, keeping its size and setting back its
            time, is not seen.
        """
        settings = self.settings.model_dump(mode="json", exclude={"weight"})
        state: list[object] = [1, str(self.listing.root.absolute()), settings, self.reading.errors]
        newest = 0
        for file in self.listing.files:
            try:
                status = file.path.stat()
            except OSError as error:
                raise DataError(f"{file.shown}: cannot read this file ({error.strerror})") from None
            state.append([file.name, status.st_size, status.st_mtime_ns])
            newest = max(newest, status.st_mtime_ns)
        return hashlib.sha256(json.dumps(state).encode()).hexdigest(), newest
