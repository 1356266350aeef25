"""What may be published: facts of pages, checks, verdicts."""
