// About how many tokens a text is, without the model's vocabulary: said to people as "about". Pure.

// Common vocabularies of today: four letters of English are a token, and a character of Japanese is nearly one.
const WIDE = /[\u2E80-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF00-\uFFEF]|[\u{20000}-\u{3FFFF}]/gu;
const LETTERS_A_TOKEN = 4;
const OTHERS_A_TOKEN = 2; // Cyrillic, Greek, Arabic, emoji ...
const A_MESSAGE = 4; // what a chat template puts around one

export function estimate(text) {
  const wide = text.match(WIDE)?.length ?? 0;
  const others = text.match(/[^\x00-\x7F]/gu)?.length ?? 0;
  const letters = text.match(/[\x00-\x7F]/g)?.length ?? 0;
  return Math.ceil(wide + (others - wide) / OTHERS_A_TOKEN + letters / LETTERS_A_TOKEN);
}

export function estimateAll(texts) {
  return texts.reduce((sum, text) => sum + estimate(text) + A_MESSAGE, 0);
}
