"""The steps of a document as plain functions that know no Prefect; ``flows.execution`` wraps them."""
