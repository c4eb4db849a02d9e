"""The formats of stored objects: frozen versions, and the upgrades between them."""
