// The memory timeline.

import { html } from "../vendor/preact-htm.module.js";

export const words = {
  en: { "memory.title": "Memory" },
  de: { "memory.title": "Speicher" },
};

export function Memory({ t }) {
  return html`<section class="panel"><h1>${t("memory.title")}</h1></section>`;
}
