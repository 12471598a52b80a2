"""From a file, whatever it is packed and coated in, to clean lines of text."""

from surefoot.readers.text.line import Line
from surefoot.readers.text.lines import lines
from surefoot.readers.text.opening import Source

__all__ = ["Line", "Source", "lines"]
