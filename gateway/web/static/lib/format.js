// Numbers, bytes and times as people of this language write them.

import { language } from "./words.js";

const formats = new Map();

export function number(value, digits = 0) {
  if (!formats.has(digits)) {
    formats.set(
      digits,
      new Intl.NumberFormat(language, { minimumFractionDigits: digits, maximumFractionDigits: digits }),
    );
  }
  return formats.get(digits).format(value);
}

/** About three digits, whatever the size. */
export function rounded(value) {
  const size = Math.abs(value);
  return number(value, size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

export function percent(share, digits = 0) {
  return `${number(share * 100, digits)}%`;
}

/** In powers of 1024, as memory is sold. */
export function bytes(value) {
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

/** In powers of 1000, as bandwidth is told. */
export function decimalBytes(value) {
  return scaled(value, 1000, ["B", "kB", "MB", "GB", "TB"]);
}

/** A length of time: 12 ms, 3.4 s, 5 min 12 s, 2 h 5 min. */
export function duration(seconds) {
  const [s, min, hour] = language === "ja" ? ["秒", "分", "時間"] : ["s", "min", "h"];
  if (seconds < 0.9995) return `${rounded(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${number(seconds, seconds < 9.995 ? 2 : 1)} ${s}`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${number(minutes)} ${min} ${whole % 60} ${s}`;
  return `${number(Math.floor(minutes / 60))} ${hour} ${minutes % 60} ${min}`;
}

/** A moment, from Unix seconds, in the reader's time zone. */
export function moment(seconds, style = { dateStyle: "medium", timeStyle: "short" }) {
  return new Intl.DateTimeFormat(language, style).format(new Date(seconds * 1000));
}

function scaled(value, base, units) {
  let index = 0;
  let size = value;
  for (; Math.abs(size) >= base && index < units.length - 1; index++) size /= base;
  return `${index === 0 ? number(size) : rounded(size)} ${units[index]}`;
}
