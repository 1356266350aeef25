"""How the steps of a document run: chunks, their process, runners, what a run shows of itself."""
