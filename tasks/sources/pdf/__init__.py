"""PDFs as sources, through MuPDF and qpdf."""
