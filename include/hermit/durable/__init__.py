"""The durable catalog: one interface over both stores."""
