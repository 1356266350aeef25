-- What became of the text of a page of document.pdf: none, kept, completed, replaced, added (old_text_layer.py). Null where
-- no document.pdf was written, and for pages of earlier versions.
ALTER TABLE pages ADD COLUMN text_layer VARCHAR;
