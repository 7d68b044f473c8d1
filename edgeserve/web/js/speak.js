// Text to speech: heard on the page, or saved.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { request } from "./api.js";
import { keepAlive } from "./completion.js";
import { Download } from "./download.js";
import { Icon } from "./icons.js";

const FORMS = ["mp3", "wav", "flac", "opus", "aac"];

async function speech(text, { voice, speed, form }, settings, signal) {
  const body = { input: text, voice: voice || undefined, speed, response_format: form, keep_alive: keepAlive(settings) };
  return (await request("/v1/audio/speech", { method: "POST", body, signal })).blob();
}

/** `{busy, error, made: {blob, url, form} | null, make, stop}` */
function useSpeech(settings) {
  const [state, setState] = useState({ busy: false, error: "", made: null });
  const abort = useRef(null);
  useEffect(() => () => abort.current?.abort(), []);
  const url = state.made?.url;
  useEffect(() => () => url && URL.revokeObjectURL(url), [url]);
  const make = async (text, choices) => {
    abort.current = new AbortController();
    setState({ busy: true, error: "", made: null });
    try {
      const blob = await speech(text, choices, settings, abort.current.signal);
      setState({ busy: false, error: "", made: { blob, url: URL.createObjectURL(blob), form: choices.form } });
    } catch (error) {
      setState({ busy: false, error: error.name === "AbortError" ? "" : error.message, made: null });
    }
  };
  return { ...state, make, stop: () => abort.current?.abort() };
}

function Select({ label, value, options, onChange }) {
  return html`<label class="field">
    <span>${label}</span>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(([id, text]) => html`<option key=${id} value=${id} selected=${id === value}>${text}</option>`)}
    </select>
  </label>`;
}

export function Speak({ t, server, settings }) {
  const [text, setText] = useState("");
  const [voice, setVoice] = useState(settings.voice);
  const [speed, setSpeed] = useState(1);
  const [form, setForm] = useState("mp3");
  const { busy, error, made, make, stop } = useSpeech(settings);
  const speaks = server.models.some((one) => one.type === "tts");
  const submit = (event) => {
    event.preventDefault();
    make(text.trim(), { voice, speed, form });
  };
  return html`<section class="panel narrow">
    <h1>${t("nav.speak")}</h1>
    ${!speaks && server.state === "ok" && html`<p class="error">${t("speak.none")}</p>`}
    <form class="card" onSubmit=${submit}>
      <label class="field">
        <span>${t("speak.text")}</span>
        <textarea rows="6" value=${text} onInput=${(event) => setText(event.target.value)} />
      </label>
      <div class="grid">
        <${Select} label=${t("settings.voice")} value=${voice} onChange=${setVoice}
          options=${[["", t("settings.default")], ...server.voices.map((one) => [one, one])]} />
        <${Select} label=${t("speak.form")} value=${form} onChange=${setForm} options=${FORMS.map((one) => [one, one.toUpperCase()])} />
        <label class="field">
          <span>${t("speak.speed", { speed: speed.toLocaleString(t.language, { minimumFractionDigits: 2 }) })}</span>
          <input type="range" min="0.5" max="2" step="0.05" value=${speed} onInput=${(event) => setSpeed(Number(event.target.value))} />
        </label>
      </div>
      <div class="row">
        ${busy
          ? html`<button type="button" class="button" onClick=${stop}><${Icon} name="stop" />${t("chat.cancel")}</button>`
          : html`<button class="button primary" disabled=${!text.trim()}><${Icon} name="speak" />${t("speak.make")}</button>`}
        ${busy && html`<progress aria-label=${t("speak.busy")} />`}
      </div>
      ${error && html`<p class="error" role="alert">${error}</p>`}
      ${made &&
      html`<div class="made">
        <audio controls autoplay src=${made.url} aria-label=${t("speak.made")} />
        <${Download} blob=${made.blob} name=${`speech.${made.form}`}>${made.form.toUpperCase()}<//>
      </div>`}
    </form>
  </section>`;
}
