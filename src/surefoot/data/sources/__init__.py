"""Where documents come from: the interpreter's own sources, or files of a known kind.

::

    from surefoot.data.sources import Source
    from surefoot.recipe import DataSource
    for document in Source(DataSource(kind="stdlib")).documents():
        print(document.file, len(document.text))
"""

from surefoot.data.sources.document import Document, Reading, SourceFile
from surefoot.data.sources.source import Source, reader_of

__all__ = ["Document", "Reading", "Source", "SourceFile", "reader_of"]
