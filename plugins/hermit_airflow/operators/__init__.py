"""One operator per step of the move."""
