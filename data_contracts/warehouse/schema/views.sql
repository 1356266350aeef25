-- Ready views, rebuilt whenever the warehouse or its export is opened. Weeks begin on Monday; a ratio over nothing is
-- null. Every view can be filtered or grouped further by document_id, week, model_fingerprint and config_sha256.
CREATE OR REPLACE VIEW measured_pages AS
SELECT
    d.document_id,
    date_trunc('week', r.started_at) AS week,
    r.model_fingerprint,
    r.started_at,
    p.*,
    m.gate_status,
    m.printed_number,
    m.predicted_cer
FROM pages p
JOIN documents d ON d.document_sha256 = p.document_sha256
JOIN runs r ON r.run_id = p.run_id
LEFT JOIN page_measures m
    ON m.document_sha256 = p.document_sha256 AND m.page_number = p.page_number AND m.config_sha256 = p.config_sha256;

CREATE OR REPLACE VIEW hit_ratio AS
SELECT
    document_id, week, model_fingerprint, config_sha256,
    sum(references_fetched) AS references_fetched,
    sum(references_hit) AS references_hit,
    sum(references_hit) / nullif(sum(references_fetched), 0) AS hit_ratio,
    sum(gate_fired) AS gate_fired
FROM measured_pages GROUP BY ALL;

CREATE OR REPLACE VIEW peak_memory AS
SELECT
    document_id, week, model_fingerprint, config_sha256,
    max(peak_memory_bytes) AS peak_memory_bytes,
    max(live_kv_bytes) AS live_kv_bytes,
    max(store_kv_bytes) AS store_kv_bytes
FROM measured_pages GROUP BY ALL;

CREATE OR REPLACE VIEW latency_drift AS
WITH placed AS (
    SELECT *, ntile(3) OVER (PARTITION BY document_sha256, config_sha256 ORDER BY page_number) AS third
    FROM measured_pages WHERE decode_ms IS NOT NULL
)
SELECT
    document_id, week, model_fingerprint, config_sha256,
    count(*) AS timed_pages,
    median(decode_ms) FILTER (third = 1) AS first_third_ms,
    median(decode_ms) FILTER (third = 3) AS last_third_ms,
    median(decode_ms) FILTER (third = 3) / nullif(median(decode_ms) FILTER (third = 1), 0) AS latency_drift_ratio
FROM placed GROUP BY ALL;

-- Rates against each source of truth; where is_estimate, against another reader, which errs as well.
CREATE OR REPLACE VIEW accuracy AS
SELECT
    p.document_id, p.week, p.model_fingerprint, p.config_sha256,
    a.source, a.is_estimate,
    count(*) AS pages,
    sum(a.characters) AS characters,
    sum(a.character_errors) / nullif(sum(a.characters), 0) AS cer,
    sum(a.word_errors) / nullif(sum(a.words), 0) AS wer,
    median(a.cer) AS median_page_cer,
    sum(a.digits) AS digits,
    sum(a.digit_errors) AS digit_errors,
    sum(a.punctuation) AS punctuation,
    sum(a.punctuation_errors) AS punctuation_errors
FROM measured_pages p
JOIN page_accuracy a
    ON a.document_sha256 = p.document_sha256 AND a.page_number = p.page_number
    AND a.config_sha256 = p.config_sha256 AND a.model_fingerprint = p.model_fingerprint
GROUP BY ALL;

CREATE OR REPLACE VIEW error_rate AS
SELECT
    document_id, week, model_fingerprint, config_sha256,
    count(*) AS pages,
    count(*) FILTER (status IN ('failed', 'truncated')) / count(*) AS unread_ratio,
    count(*) FILTER (gate_status = 'quarantined') / count(*) AS quarantined_ratio,
    sum(confidence * characters) / nullif(sum(characters) FILTER (confidence IS NOT NULL), 0) AS confidence,
    sum(predicted_cer * characters) / nullif(sum(characters) FILTER (predicted_cer IS NOT NULL), 0) AS predicted_cer
FROM measured_pages GROUP BY ALL;
