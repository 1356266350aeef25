-- Errors by kind of character: a wrong digit changes a fact where a wrong letter seldom does. Null where a page was
-- measured before they were counted.
ALTER TABLE page_accuracy ADD COLUMN digits INTEGER;
ALTER TABLE page_accuracy ADD COLUMN digit_errors INTEGER;
ALTER TABLE page_accuracy ADD COLUMN punctuation INTEGER;
ALTER TABLE page_accuracy ADD COLUMN punctuation_errors INTEGER;
ALTER TABLE page_accuracy ADD COLUMN letter_errors INTEGER;
ALTER TABLE page_accuracy ADD COLUMN case_errors INTEGER;
