"""The versioned catalog service."""
