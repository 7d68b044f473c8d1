// The words of the page, in German and English.

import { words } from "./words.js";

export const languages = { en: "English", de: "Deutsch" };

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

/** A size in MB. */
export function size(mb, t) {
  const [figure, unit] = mb >= 1024 ? [mb / 1024, "GB"] : [mb, "MB"];
  return `${new Intl.NumberFormat(t.language, { maximumFractionDigits: unit === "GB" ? 1 : 0 }).format(figure)} ${unit}`;
}

/** The time of day of seconds since the epoch. */
export function clock(at, t) {
  return new Date(at * 1000).toLocaleTimeString(t.language, { timeStyle: "medium", hourCycle: "h23" });
}

/** A number of seconds, in its largest unit. */
export function duration(seconds, t) {
  const [unit, count] = seconds < 90 ? ["second", seconds] : seconds < 5400 ? ["minute", seconds / 60] : ["hour", seconds / 3600];
  return counted(count, unit, t, 0);
}

/** A number of minutes. */
export function minutes(count, t) {
  return counted(count, "minute", t, 1);
}

function counted(count, unit, t, digits) {
  return new Intl.NumberFormat(t.language, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: digits }).format(count);
}
