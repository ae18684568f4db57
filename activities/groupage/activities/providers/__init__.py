"""Provider adapters behind one interface."""
