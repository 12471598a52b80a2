"""Files that are one document: plain text, and Python source by its declared encoding."""

import io
import tokenize

from surefoot.data.sources.document import REPLACE, Reading, SourceFile, Texts, decode
from surefoot.data.sources.stored import contents
from surefoot.errors import DataError


def read_text(file: SourceFile, reading: Reading) -> Texts:
    """The file as it is, line ends included, decoded as UTF-8; a byte-order mark is dropped."""
    yield 0, decode(contents(file.path), reading, file.shown)


def read_python(file: SourceFile, reading: Reading) -> Texts:
    r"""Python source as ``tokenize.open`` reads it: by its coding line, line ends as ``\n``.

    Raises:
        DataError: if the bytes are not in the declared encoding and the policy is ``strict``.
    """
    data, where, encoding = contents(file.path), file.shown, "utf-8"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        # Either bad bytes in the first two lines, which `decode` names better, or an unknown name.
        decode(data, reading, where)
        if reading.errors == "strict":
            raise DataError(
                f"{where}: {error.msg}: correct its coding line, or type {REPLACE}"
            ) from None
    text = decode(data, reading, where, encoding=encoding)
    yield 0, text.replace("\r\n", "\n").replace("\r", "\n")
