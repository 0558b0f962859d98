"""Images on disk become a Collection; nothing here knows a method."""
