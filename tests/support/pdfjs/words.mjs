// Prints, as JSON, the text of each page of a PDF as pdf.js (Firefox) finds it, in the order of the content.
import { readFile } from "node:fs/promises";

console.log = console.error; // it warns on standard output that it cannot draw, which nobody asks of it here
const { getDocument } = await import("pdfjs-dist/legacy/build/pdf.mjs");

const data = new Uint8Array(await readFile(process.argv[2]));
const document = await getDocument({ data, isEvalSupported: false }).promise;
const pages = [];
for (let number = 1; number <= document.numPages; number += 1) {
  const page = await document.getPage(number);
  const { items } = await page.getTextContent();
  pages.push(items.map((item) => item.str + (item.hasEOL ? "\n" : "")).join(""));
}
process.stdout.write(JSON.stringify(pages));
