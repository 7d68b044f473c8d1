// The words of the page, in German and English.

import { words as shell } from "./words.js";
import { words as memory } from "./memory.js";
import { words as models } from "./models.js";

export const languages = { en: "English", de: "Deutsch" };

export const words = {
  en: { ...shell.en, ...memory.en, ...models.en },
  de: { ...shell.de, ...memory.de, ...models.de },
};

/** The language to speak: the chosen one, or the browser's first that is here. */
export function languageOf(chosen) {
  const wanted = [chosen, ...navigator.languages.map((one) => one.slice(0, 2))];
  return wanted.find((one) => one in languages) ?? "en";
}

/** `t(key, values)`: the text of a key; `{name}` in it becomes `values.name`. */
export function translator(language) {
  const t = (key, values = {}) => {
    const text = words[language][key] ?? words.en[key] ?? key;
    return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
  };
  t.language = language;
  return t;
}
