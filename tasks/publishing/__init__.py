"""What is published: one module a format, and what the searchable PDF is made of."""
