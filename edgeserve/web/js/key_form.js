// Asks for the key of a server that wants one.

import { html, useState } from "../vendor/preact-htm.module.js";
import { setKey } from "./settings.js";

export function KeyForm({ t, wrong }) {
  const [value, setValue] = useState("");
  const submit = (event) => {
    event.preventDefault();
    setKey(value);
  };
  return html`<section class="panel narrow">
    <h1>${t("key.title")}</h1>
    <p>${t("key.why")}</p>
    ${wrong && html`<p class="error" role="alert">${t("key.wrong")}</p>`}
    <form onSubmit=${submit} class="stack">
      <label class="field">
        <span>${t("settings.key")}</span>
        <input type="password" autocomplete="current-password" required value=${value} onInput=${(event) => setValue(event.target.value)} />
      </label>
      <button class="button primary">${t("key.open")}</button>
    </form>
  </section>`;
}
