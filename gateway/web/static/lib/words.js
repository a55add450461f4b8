// What a page says, in the language that <html lang> names. Tables stand beside the pages: {key: {en, ja}}.

const COOKIE = "sekisho-language"; // gateway/web/words.py reads it
export const LANGUAGES = { en: "English", ja: "日本語" };
export const language = document.documentElement.lang === "ja" ? "ja" : "en";

const PLACE = /\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g;

/**
 * say(key, values): the words of this key, each {name} in them replaced by values.name, and each {name|day|days} by the
 * first of the two where values.name is 1, as English has it.
 */
export function words(table) {
  return (key, values = {}) => {
    const said = table[key];
    if (said === undefined) throw new Error(`no words for ${key}`);
    return said[language].replace(PLACE, (whole, name, one, many) => {
      if (!(name in values)) return whole;
      const value = String(values[name]);
      return one === undefined ? value : value === "1" ? one : many;
    });
  };
}

export function setLanguage(name) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${COOKIE}=${name}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  location.reload();
}
