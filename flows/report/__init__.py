"""One HTML file that says what became of a document."""
