import { html } from "../vendor/preact-htm.module.js";

export function Speak({ t }) {
  return html`<section class="panel"><h1>${t("nav.speak")}</h1></section>`;
}
