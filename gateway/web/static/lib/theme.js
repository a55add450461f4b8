// Light, dark, or as the system has it: kept in this browser alone. first.js applies it before the page is painted.

const KEY = "sekisho-theme";
export const THEMES = ["system", "light", "dark"];

export function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

export function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    if (name === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, name);
  } catch {
    // Storage is refused: it holds until the page is left.
  }
}
