"""Persist: named, definite collections on Delta Lake."""
