"""Configuration files as documents: leaves that know their line, in every language they come in."""

from surefoot.readers.configs.documents.load import load
from surefoot.readers.configs.documents.tree import Document, Leaf, Node

__all__ = ["Document", "Leaf", "Node", "load"]
