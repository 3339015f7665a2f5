"""Passes over a graph on its way out."""
