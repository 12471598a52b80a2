"""Bytes to text: UTF-8, UTF-16 with or without a mark, encodings of Chinese and Japanese."""

import codecs

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NATIONAL = ("gb18030", "shift_jis", "euc_jp")


def encoding_of(head: bytes) -> str:
    """The encoding of a text, from its first bytes.

    A mark decides; then zeros at every other place (UTF-16 without a mark); then whether the bytes
    are UTF-8; then the first national encoding without an error. What remains is read as UTF-8,
    bad bytes replaced: the numbers of a log are ASCII in any of them.
    """
    for mark, name in sorted(_MARKS.items(), key=lambda item: -len(item[0])):
        if head.startswith(mark):
            return name
    pairs = head[: len(head) & ~1]
    if len(pairs) >= 8:
        odd, even = pairs[1::2].count(0) * 2, pairs[::2].count(0) * 2
        if odd > 0.4 * len(pairs) and even < 0.1 * len(pairs):
            return "utf-16-le"
        if even > 0.4 * len(pairs) and odd < 0.1 * len(pairs):
            return "utf-16-be"
    if _decodes(head, "utf-8"):
        return "utf-8"
    if head.count(0) == 0:  # a text at all
        for name in _NATIONAL:
            if _decodes(head, name):
                return name
    return "utf-8"


def decoder(encoding: str) -> codecs.IncrementalDecoder:
    """A decoder that is fed chunks and replaces what it cannot read."""
    return codecs.getincrementaldecoder(encoding)(errors="replace")


def _decodes(head: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(head)  # a cut last character is no error
    except UnicodeDecodeError:
        return False
    return True
