// The text of a file that somebody attaches. PDF.js comes with the first PDF.

import { bytes } from "../lib/format.js";
import { say } from "./words.js";

// What the browser offers first; anything that turns out to be text is taken.
export const ACCEPTED =
  "text/*,application/pdf,.md,.csv,.json,.jsonl,.yaml,.yml,.toml,.ini,.log,.sql,.ts,.java,.go,.rs";
const LARGEST = 20 * 1024 * 1024;
// As files are written in Japan, the surest to be told apart first; a wrong guess fails and the next is tried.
const ENCODINGS = ["utf-8", "shift_jis", "euc-jp"];

/** Throws an Error whose message is for the reader. */
export async function readFile(file) {
  const { name } = file;
  if (file.size > LARGEST) throw new Error(say("file_too_large", { name, limit: bytes(LARGEST) }));
  const content = new Uint8Array(await file.arrayBuffer());
  const text = startsWith(content, "%PDF-") ? await pdfText(content, name) : decoded(content);
  if (text === null) throw new Error(say("file_binary", { name }));
  if (!text.trim()) throw new Error(say("file_empty", { name }));
  return text;
}

async function pdfText(content, name) {
  try {
    const { textOf } = await import("./pdf.js");
    return await textOf(content);
  } catch (fault) {
    throw new Error(say("file_broken", { name, why: fault.message }));
  }
}

/** Null where it is no text. */
export function decoded(content) {
  if (content[0] === 0xff && content[1] === 0xfe) return new TextDecoder("utf-16le").decode(content);
  if (content[0] === 0xfe && content[1] === 0xff) return new TextDecoder("utf-16be").decode(content);
  if (content.includes(0)) return null;
  for (const encoding of ENCODINGS) {
    try {
      return new TextDecoder(encoding, { fatal: true }).decode(content);
    } catch {
      // Not this one.
    }
  }
  return null;
}

function startsWith(content, letters) {
  return [...letters].every((letter, at) => content[at] === letter.charCodeAt(0));
}
