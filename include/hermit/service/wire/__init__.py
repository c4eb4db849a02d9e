"""How the log is written: protocol, registry of serializers, and the guard over what was released."""
