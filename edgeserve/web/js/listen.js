import { html } from "../vendor/preact-htm.module.js";

export function Listen({ t }) {
  return html`<section class="panel"><h1>${t("nav.listen")}</h1></section>`;
}
