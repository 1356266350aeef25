-- What is stored between two checkpoints, and how far readings are from what is known of the pages' text. A chunk's
-- rows are replaced with its document's; an accuracy counts as long as the page is read by the model it was read by.
CREATE TABLE chunks (
    document_sha256 VARCHAR NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    chunk_number INTEGER NOT NULL,
    run_id VARCHAR NOT NULL,
    first_page INTEGER NOT NULL,
    last_page INTEGER NOT NULL,
    pages INTEGER NOT NULL,
    state_sha256 VARCHAR NOT NULL,
    state_bytes BIGINT NOT NULL,
    decode_ms DOUBLE,
    PRIMARY KEY (document_sha256, config_sha256, chunk_number)
);

CREATE TABLE page_accuracy (
    document_sha256 VARCHAR NOT NULL,
    page_number INTEGER NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    source VARCHAR NOT NULL,
    is_estimate BOOLEAN NOT NULL,
    model_fingerprint VARCHAR NOT NULL,
    characters INTEGER NOT NULL,
    character_errors INTEGER NOT NULL,
    words INTEGER NOT NULL,
    word_errors INTEGER NOT NULL,
    cer DOUBLE NOT NULL,
    wer DOUBLE NOT NULL,
    bag_recall DOUBLE NOT NULL,
    measured_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (document_sha256, page_number, config_sha256, source)
);
