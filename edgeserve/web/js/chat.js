import { html } from "../vendor/preact-htm.module.js";

export function Chat({ t }) {
  return html`<section class="panel"><h1>${t("nav.chat")}</h1></section>`;
}
