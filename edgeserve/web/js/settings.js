// Settings of this browser, and the key. The key stays in sessionStorage: it ends with the tab.

import { useEffect, useState } from "../vendor/preact-htm.module.js";

const STORED = "edgeserve.settings";
const KEY = "edgeserve.key";

export const defaults = {
  language: "", // empty: the browser's
  theme: "system",
  model: "", // empty: the server's default
  voice: "",
  temperature: "", // empty: the server's default
  keepAlive: "",
  system: "",
  speakAnswers: false,
};

const listeners = new Set();
let current = { ...defaults, ...read() };

function read() {
  try {
    const stored = JSON.parse(localStorage.getItem(STORED) ?? "{}");
    const known = Object.entries(stored).filter(([name, value]) => typeof value === typeof defaults[name]);
    return Object.fromEntries(known);
  } catch {
    return {}; // a browser that stores nothing, or something else's data: the defaults hold
  }
}

function write(store, name, value) {
  try {
    if (value) store().setItem(name, value);
    else store().removeItem(name);
  } catch (error) {
    console.warn(`the browser does not keep ${name}: ${error.message}`);
  }
}

export function settings() {
  return current;
}

export function change(values) {
  current = { ...current, ...values };
  write(() => localStorage, STORED, JSON.stringify(current));
  for (const listener of listeners) listener();
}

let key = readKey();
takeKey();
addEventListener("hashchange", takeKey);

/** Takes the key that a QR code put behind "#" out of the address, which people show and send to others. */
function takeKey() {
  const found = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!found) return;
  history.replaceState(null, "", location.href.split("#")[0]);
  setKey(found);
}

function readKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function apiKey() {
  return key;
}

export function setKey(value) {
  key = value.trim();
  write(() => sessionStorage, KEY, key);
  for (const listener of listeners) listener();
}

/** The settings and the key; the component renders again when either changes. */
export function useSettings() {
  const [, renew] = useState(0);
  useEffect(() => {
    const listener = () => renew((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return { ...current, key };
}
