"""The stash: a time-varying key-value store, fenced, on PostgreSQL."""
