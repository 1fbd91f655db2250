"""Lineage: from data to answer, as a graph of resources and as a statement that is attached to an image."""
