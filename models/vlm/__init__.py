"""Large decoders from transformers behind the ``OcrModel`` protocol, unmodified, page after page in constant memory."""
