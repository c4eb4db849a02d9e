"""Connections to the two stores."""
