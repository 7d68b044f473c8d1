// The models of this server.

import { html } from "../vendor/preact-htm.module.js";

export const words = {
  en: { "models.title": "Models" },
  de: { "models.title": "Modelle" },
};

export function Models({ t }) {
  return html`<section class="panel"><h1>${t("models.title")}</h1></section>`;
}
