"""Words of lines, of documents and of languages."""
