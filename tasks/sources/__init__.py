"""Where pages come from: PDFs, images, folders and object stores."""
