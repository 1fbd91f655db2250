"""Modelwright: an operator for the life of machine-learning models."""

__version__ = "0.1.0"
