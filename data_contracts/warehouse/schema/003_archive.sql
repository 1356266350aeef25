-- What the ingestion of an archive saw, one row for each document-to-be: what it looked like (version), what it held
-- (sha256), and how it ended. A row that says 'reading' while nobody ingests is of a run that was killed.
CREATE TABLE archive_objects (
    prefix VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    uri VARCHAR NOT NULL,
    version VARCHAR NOT NULL,
    sha256 VARCHAR,
    status VARCHAR NOT NULL,
    reason VARCHAR,
    exit_code INTEGER NOT NULL,
    retryable BOOLEAN NOT NULL,
    attempts INTEGER NOT NULL,
    document_id VARCHAR,
    run_id VARCHAR NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (prefix, name)
);

-- Every attempt at reading single pages again, and what came of it.
CREATE TABLE backfill_attempts (
    run_id VARCHAR NOT NULL,
    document_sha256 VARCHAR NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    page_number INTEGER NOT NULL,
    reading_sha256 VARCHAR NOT NULL,
    why VARCHAR NOT NULL,
    replaced_status VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    reason VARCHAR,
    attempted_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (run_id, document_sha256, config_sha256, page_number)
);

-- Rows of pages that were read in a context which a backfill has changed since.
ALTER TABLE pages ADD COLUMN stale_context BOOLEAN DEFAULT false;
