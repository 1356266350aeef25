"""What is published: one module a format."""
