"""Waiting for stores, and for states of a catalog."""
