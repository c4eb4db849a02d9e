"""The serializers. Every module here is imported when the registry is built: adding one is enough."""
