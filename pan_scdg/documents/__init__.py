"""Documents as text: what a reader sees of Word, OpenDocument, HTML and PDF files.

- `reader` reads a document of any format, `folders` folders of them.
- `styles` decides what of a page of HTML is visible, `html_text` takes it out.
- `docx` and `odt` map their formats to HTML and CSS.
- `pdf` joins the pages that `pdf_page` reads and `pdf_lines` puts in order.
"""
