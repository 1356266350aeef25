-- What the contracts said of the readings, and who overruled them. A document's rows of one configuration are
-- replaced together, except releases, which are a person's word and stay.
CREATE TABLE page_measures (
    document_sha256 VARCHAR NOT NULL,
    page_number INTEGER NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    printed_number INTEGER,
    printed_style VARCHAR,
    distinct_20_ratio DOUBLE,
    distinct_35_ratio DOUBLE,
    repeated_lines INTEGER NOT NULL,
    odd_character_ratio DOUBLE NOT NULL,
    script_count INTEGER NOT NULL,
    gate_status VARCHAR NOT NULL,
    PRIMARY KEY (document_sha256, page_number, config_sha256)
);

CREATE TABLE low_confidence_lines (
    document_sha256 VARCHAR NOT NULL,
    page_number INTEGER NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    line_number INTEGER NOT NULL,
    text VARCHAR NOT NULL,
    confidence DOUBLE NOT NULL,
    left_px DOUBLE NOT NULL,
    top_px DOUBLE NOT NULL,
    right_px DOUBLE NOT NULL,
    bottom_px DOUBLE NOT NULL,
    PRIMARY KEY (document_sha256, config_sha256, page_number, line_number)
);

CREATE TABLE evaluations (
    document_sha256 VARCHAR NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    suite VARCHAR NOT NULL,
    expectation VARCHAR NOT NULL,
    severity VARCHAR NOT NULL,
    success BOOLEAN NOT NULL,
    failing_pages INTEGER NOT NULL,
    detail VARCHAR NOT NULL,
    PRIMARY KEY (document_sha256, config_sha256, suite, expectation)
);

CREATE TABLE verdicts (
    document_sha256 VARCHAR NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    quality_version INTEGER NOT NULL,
    publishable BOOLEAN NOT NULL,
    selected_pages INTEGER NOT NULL,
    quarantined_pages INTEGER NOT NULL,
    warnings INTEGER NOT NULL,
    summary VARCHAR NOT NULL,
    PRIMARY KEY (document_sha256, config_sha256)
);

CREATE TABLE releases (
    document_sha256 VARCHAR NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    page_number INTEGER NOT NULL,
    why VARCHAR NOT NULL,
    released_by VARCHAR NOT NULL,
    released_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (document_sha256, config_sha256, page_number, released_at)
);
