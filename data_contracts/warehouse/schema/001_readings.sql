-- What was read, from what, by whom. Page numbers are 1-based; a page's row is upserted by
-- (document_sha256, page_number, config_sha256), so that running twice is running once.
CREATE TABLE documents (
    document_sha256 VARCHAR PRIMARY KEY,
    document_id VARCHAR NOT NULL,
    uri VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    page_count INTEGER NOT NULL
);

CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY,
    document_sha256 VARCHAR NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    model_fingerprint VARCHAR NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    seconds DOUBLE NOT NULL,
    selected_pages INTEGER NOT NULL,
    peak_memory_bytes BIGINT NOT NULL,
    config JSON NOT NULL
);

CREATE TABLE pages (
    document_sha256 VARCHAR NOT NULL,
    page_number INTEGER NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    blank_reason VARCHAR,
    error VARCHAR,
    stop_reason VARCHAR NOT NULL,
    degraded_by VARCHAR,
    width_px INTEGER NOT NULL,
    height_px INTEGER NOT NULL,
    dpi DOUBLE NOT NULL,
    rotation INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    characters INTEGER NOT NULL,
    confidence DOUBLE,
    live_kv_bytes BIGINT NOT NULL,
    store_kv_bytes BIGINT NOT NULL,
    gate_fired INTEGER NOT NULL,
    references_fetched INTEGER NOT NULL,
    references_hit INTEGER NOT NULL,
    hit_ratio DOUBLE,
    window_pages INTEGER NOT NULL,
    top_k INTEGER NOT NULL,
    decode_ms DOUBLE,
    step_latency_p50_ms DOUBLE,
    step_latency_p95_ms DOUBLE,
    peak_memory_bytes BIGINT,
    PRIMARY KEY (document_sha256, page_number, config_sha256)
);

CREATE TABLE events (
    document_sha256 VARCHAR NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    page_number INTEGER NOT NULL,
    event_number INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    detail VARCHAR NOT NULL,
    PRIMARY KEY (document_sha256, config_sha256, page_number, event_number)
);
