"""Opening what people have: plain or compressed files and standard input, as bytes."""

import bz2
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from surefoot.errors import LogError
from surefoot.readers.text.decoding import decoder, encoding_of
from surefoot.readers.text.notebook import is_notebook, printed

HEAD = 64 * 1024
CHUNK = 1 << 20
LEAST = 4096
"""Bytes that a new member of a packed file is given first."""
MOST_EMPTY = 10_000
"""Members in a row that may hold nothing."""
MOST_WHOLE = 512 << 20
"""Largest document, unpacked, that is read whole (JSON, YAML): memory stays bounded."""

_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
}

_NO_TEXT = bytes(set(range(1, 32)) - set(b"\t\n\r\f\b\x1b"))


class Source:
    """One file (or standard input) as unpacked bytes, read as a stream.

    Compression is told by the first bytes, never by the name, and undone as a stream: what is
    unpacked is never held as a whole. A packed stream that is cut short or damaged ends where it
    does; :attr:`damage` says so afterwards.

    Args:
        path: a file, or ``"-"`` for standard input.
        raw: an open binary stream to use in place of the path (standard input, tests).
        keys: what the user says of the file: signal (or ``step``) -> key as it is written there.
    """

    def __init__(
        self,
        path: Path | str,
        raw: IO[bytes] | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        self.path = str(path)
        self.keys: Mapping[str, str] = dict(keys or {})
        self.damage: str | None = None
        self._raw = raw if raw is not None else self._open(path)
        self.packing: str | None = None
        first = self._peek_raw()
        for magic, packing in _PACKED.items():
            if first.startswith(magic):
                self.packing = packing
        self._stream = self._unpacked()
        self._head: bytes | None = None
        self._ended = False
        self._converted = False
        self._decode: Callable[[bytes], str] | None = None

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return "standard input" if self.path == "-" else Path(self.path).name

    @property
    def live(self) -> bool:
        """Whether it may go on growing while it is read (standard input)."""
        return self.path == "-"

    @property
    def file(self) -> Path | None:
        """The path, if it is a plain file that can be mapped and sought in."""
        if self.live or self.packing is not None or not Path(self.path).is_file():
            return None
        return None if self.head is not None and self._converted else Path(self.path)

    @property
    def binary(self) -> bool:
        """Whether it is no text: its beginning holds many bytes that no text has.

        Zeros alone do not tell: a file system that lost a block leaves them in a log.
        """
        head = self.head
        odd = len(head) - len(head.translate(None, _NO_TEXT))
        return odd > 0.02 * len(head)

    @property
    def head(self) -> bytes:
        """The first 64 KB, unpacked; they are read again by :meth:`chunks`."""
        if self._head is None:
            taken = bytearray()
            while len(taken) < HEAD and (more := self._read(HEAD - len(taken))):
                taken += more
                if self.live and b"\n" in taken:
                    break  # a pipe gives what it has: whoever follows it does not wait for more
            self._head = self._as_utf8(bytes(taken))
            if not self.live and is_notebook(self._head):
                self._as_printed()
        return self._head

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        """The bytes, once, from the beginning."""
        if self.head:
            yield self.head
        while more := self._read(size):
            yield more if self._decode is None else self._decode(more).encode()

    def whole(self, most: int = MOST_WHOLE) -> bytes:
        """All bytes.

        Raises:
            LogError: if there are more than ``most``, unpacked.
        """
        taken = bytearray()
        for chunk in self.chunks():
            taken += chunk
            if len(taken) > most:
                raise LogError(
                    f"{self.name} is larger than {most >> 20} MB unpacked: too large to be read as "
                    "one document"
                )
        return bytes(taken)

    def _as_utf8(self, head: bytes) -> bytes:
        """The beginning of a text of wide characters as UTF-8; all that follows comes so, too."""
        encoding = encoding_of(head)
        if not encoding.startswith(("utf-16", "utf-32")):
            return head
        self._converted = True
        self._decode = decoder(encoding).decode
        return self._decode(head).encode()

    def _as_printed(self) -> None:
        """Put what a notebook's cells printed in place of the notebook."""
        document = self.whole()
        text = printed(document)
        self._converted = self._converted or text is not None
        self._stream = io.BytesIO(document if text is None else text)
        self._decode = None
        self._ended = False
        self._head = self._stream.read(HEAD)

    def close(self) -> None:
        """Close the file."""
        if not self.live:
            self._raw.close()

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self, path: Path | str) -> IO[bytes]:
        if str(path) == "-":
            return cast(IO[bytes], sys.stdin.buffer)
        try:
            return open(path, "rb", buffering=CHUNK)
        except OSError as error:
            raise LogError(f"cannot read {path}: {error.strerror or error}") from None

    def _peek_raw(self) -> bytes:
        try:
            if hasattr(self._raw, "peek"):
                return bytes(self._raw.peek(6)[:6])
            first = self._raw.read(6)
        except OSError as error:
            raise LogError(f"cannot read {self.path}: {error.strerror or error}") from None
        self._raw = cast(IO[bytes], _Rejoined(first, self._raw))
        return first

    def _unpacked(self) -> Any:
        if self.packing in ("gzip", "bz2", "xz"):
            return _Unpacked(self._raw, self.packing)
        if self.packing == "zstd":
            import zstandard

            decoder = zstandard.ZstdDecompressor(max_window_size=1 << 27)
            return decoder.stream_reader(self._raw, read_across_frames=True)
        return self._raw

    def _read(self, size: int) -> bytes:
        if self._ended:
            return b""
        read = getattr(self._stream, "read1", None) if self.live else None
        try:
            more = bytes((read or self._stream.read)(size))
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, MemoryError) as error:
            more = self._broken(error)
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "zstandard":
                raise
            more = self._broken(error)
        if not more:
            self._ended = True
        return more

    def _broken(self, error: BaseException) -> bytes:
        if self.packing is None and isinstance(error, OSError):
            raise LogError(f"cannot read {self.path}: {error.strerror or error}") from None
        self.damage = f"the {self.packing or 'file'} stream is cut short or damaged ({error})"
        return b""


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes were already taken."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._first:
            taken = self._first if size < 0 else self._first[:size]
            self._first = self._first[len(taken) :]
            return taken if size >= 0 else taken + self._rest.read()
        return self._rest.read(size)

    def read1(self, size: int = -1) -> bytes:
        if self._first:
            return self.read(size)
        with suppress(AttributeError):
            return cast(Any, self._rest).read1(size)  # type: ignore[no-any-return]
        return self._rest.read(size)


class _Unpacked:
    """A gzip, bz2 or xz stream, members joined, that gives all it has before it complains."""

    def __init__(self, raw: IO[bytes], packing: str) -> None:
        self._raw, self._packing = raw, packing
        self._held, self._at = b"", 0  # bytes of the file, and how many of them were handed on
        self._empty = 0  # members in a row that hold nothing
        self._begin()

    def _begin(self) -> None:
        self._decoder = self._new()
        self._pending = b""
        self._share = LEAST

    def _new(self) -> Any:
        if self._packing == "gzip":
            return zlib.decompressobj(31)
        if self._packing == "bz2":
            return bz2.BZ2Decompressor()
        # What a stream made with -9 needs is 65 MB; a forged one may ask for 4 GB.
        return lzma.LZMADecompressor(memlimit=256 << 20)

    def _more(self) -> bool:
        """Whether bytes are left that were not handed on."""
        if self._at >= len(self._held):
            self._held, self._at = self._raw.read(CHUNK), 0
        return bool(self._held)

    def read(self, size: int) -> bytes:
        while True:
            if self._decoder.eof:
                self._at -= len(self._decoder.unused_data)
                if not self._more():
                    return b""
                if not self._held[self._at] and not self._held[self._at :].strip(b"\0"):
                    return b""
                self._empty += 1
                if self._empty > MOST_EMPTY:
                    raise ValueError(f"more than {MOST_EMPTY:,} parts that hold nothing")
                self._begin()
            if not self._pending and getattr(self._decoder, "needs_input", True):
                if not self._more():
                    raise EOFError("its end is missing")
                # Little at first: what a short member leaves over is copied each time.
                self._pending = self._held[self._at : self._at + self._share]
                self._at += len(self._pending)
                self._share = min(CHUNK, 2 * self._share)
            out = self._decoder.decompress(self._pending, size)
            self._pending = getattr(self._decoder, "unconsumed_tail", b"")
            if out:
                self._empty = 0
                return cast(bytes, out)
