"""The move: protocols as data, steps as small fenced writes."""
