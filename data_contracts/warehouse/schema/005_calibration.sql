-- What the confidence of a page lets expect, by calibration.json; null for pages of earlier versions.
ALTER TABLE page_measures ADD COLUMN predicted_cer DOUBLE;
