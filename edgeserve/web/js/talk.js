import { html } from "../vendor/preact-htm.module.js";

export function Talk({ t }) {
  return html`<section class="panel"><h1>${t("nav.talk")}</h1></section>`;
}
