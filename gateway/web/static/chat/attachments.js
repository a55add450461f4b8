// Files within a prompt: their text stands before the question, marked with the file's name. Pure.

const ONE = /^<file name="([^"\n]*)">\n([\s\S]*?)\n<\/file>\n\n/;

/** `files`: [{name, text}]. */
export function joined(files, text) {
  return (
    files.map((file) => `<file name="${file.name.replace(/["\n]/g, "'")}">\n${file.text}\n</file>\n\n`).join("") + text
  );
}

/** The same taken apart again: {files, text}. */
export function split(content) {
  const files = [];
  let text = content;
  for (let found = ONE.exec(text); found; found = ONE.exec(text)) {
    files.push({ name: found[1], text: found[2] });
    text = text.slice(found[0].length);
  }
  return { files, text };
}
