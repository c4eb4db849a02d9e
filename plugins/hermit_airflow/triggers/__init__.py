"""What waits without a worker slot."""
