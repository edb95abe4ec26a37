"""Glue between Cadre, a Jupyter kernel for C, and Python's clients. No kernel logic is here."""

__version__ = "0.1.0"
