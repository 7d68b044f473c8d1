// Settings of this browser.

import { html } from "../vendor/preact-htm.module.js";
import { address } from "./api.js";
import { clearConversations } from "./conversations.js";
import { languages } from "./i18n.js";
import { namesOf } from "./server.js";
import { change, setKey } from "./settings.js";

function Choice({ label, hint, name, value, options }) {
  return html`<label class="field">
    <span>${label}</span>
    <select name=${name} value=${value} onChange=${(event) => change({ [name]: event.target.value })}>
      ${options.map(([id, text]) => html`<option key=${id} value=${id} selected=${id === value}>${text}</option>`)}
    </select>
    ${hint && html`<small>${hint}</small>`}
  </label>`;
}

function Entry({ label, hint, name, value, ...rest }) {
  return html`<label class="field">
    <span>${label}</span>
    <input name=${name} value=${value} onChange=${(event) => change({ [name]: event.target.value.trim() })} ...${rest} />
    ${hint && html`<small>${hint}</small>`}
  </label>`;
}

/** The names, and the chosen one also where the server does not serve it at the moment. */
function options(names, chosen, t) {
  const all = chosen && !names.includes(chosen) ? [...names, chosen] : names;
  return [["", t("settings.default")], ...all.map((name) => [name, name])];
}

export function Settings({ t, server, settings }) {
  const forget = async () => {
    if (confirm(t("settings.forget.sure"))) await clearConversations();
  };
  return html`<section class="panel narrow">
    <h1>${t("nav.settings")}</h1>
    <h2>${t("settings.answers")}</h2>
    <div class="grid">
      <${Choice} name="model" label=${t("settings.model")} value=${settings.model}
        options=${options(namesOf(server.models, "llm", "vision"), settings.model, t)} />
      <${Choice} name="voice" label=${t("settings.voice")} value=${settings.voice} options=${options(server.voices, settings.voice, t)} />
      <${Entry} name="temperature" label=${t("settings.temperature")} hint=${t("settings.temperature.hint")} value=${settings.temperature}
        type="number" min="0" max="2" step="0.1" placeholder=${t("settings.default")} />
      <${Entry} name="keepAlive" label=${t("settings.keep")} hint=${t("settings.keep.hint")} value=${settings.keepAlive}
        placeholder=${t("settings.default")} pattern="-?[0-9]+|([0-9]+[smh])+" />
    </div>
    <label class="field">
      <span>${t("settings.system")}</span>
      <textarea rows="3" value=${settings.system} onChange=${(event) => change({ system: event.target.value })} />
      <small>${t("settings.system.hint")}</small>
    </label>
    <label class="tick">
      <input type="checkbox" checked=${settings.speakAnswers} onChange=${(event) => change({ speakAnswers: event.target.checked })} />
      <span>${t("settings.speak")}</span>
    </label>
    <h2>${t("settings.page")}</h2>
    <div class="grid">
      <${Choice} name="theme" label=${t("settings.theme")} value=${settings.theme}
        options=${["system", "light", "dark"].map((one) => [one, t(`theme.${one}`)])} />
      <${Choice} name="language" label=${t("settings.language")} value=${settings.language}
        options=${[["", t("theme.system")], ...Object.entries(languages)]} />
    </div>
    <h2>${t("settings.access")}</h2>
    <label class="field">
      <span>${t("settings.key")}</span>
      <input type="password" autocomplete="off" value=${settings.key} onChange=${(event) => setKey(event.target.value)} />
      <small>${t("settings.key.hint")}</small>
    </label>
    <p class="row">
      <a class="button" href=${address("/openapi.json")} target="_blank" rel="noopener noreferrer">${t("settings.api")}</a>
      <button type="button" class="button danger" onClick=${forget}>${t("settings.forget")}</button>
    </p>
  </section>`;
}
