// Something that a page has, saved as a file.

/** Hands a text, or a Blob, to the browser to be saved. */
export function download(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replace(/[\\/:*?"<>|\u0000-\u001f]/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
