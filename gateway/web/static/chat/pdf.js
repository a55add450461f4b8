// The text of a PDF, page by page, read in a worker of the same origin.

import * as pdfjs from "../vendor/pdfjs/pdf.min.mjs";

const FOLDER = new URL("../vendor/pdfjs/", import.meta.url);
// The page's policy lets no script be named by a mere text; this names one, always the same.
const policy = globalThis.trustedTypes?.createPolicy("sekisho-pdf", {
  createScriptURL: () => `${FOLDER}pdf.worker.min.mjs`,
});

export async function textOf(data) {
  const worker = new Worker(policy ? policy.createScriptURL("") : `${FOLDER}pdf.worker.min.mjs`, { type: "module" });
  pdfjs.GlobalWorkerOptions.workerPort = worker;
  const loading = pdfjs.getDocument({ data, cMapUrl: `${FOLDER}cmaps/`, cMapPacked: true, isEvalSupported: false });
  try {
    const file = await loading.promise;
    const pages = [];
    for (let page = 1; page <= file.numPages; page++) pages.push(await pageText(await file.getPage(page)));
    return pages.join("\n\n").trim();
  } finally {
    await loading.destroy();
    worker.terminate();
  }
}

async function pageText(page) {
  const { items } = await page.getTextContent();
  return items.map((item) => item.str + (item.hasEOL ? "\n" : "")).join("");
}
