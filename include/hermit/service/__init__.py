"""The versioned catalog service, on whichever store holds the truth."""
