// Speech to text: live from the microphone, and from files.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.module.js";
import { Download } from "./download.js";
import { Icon } from "./icons.js";
import { listen } from "./live.js";
import { Transcripts } from "./transcripts.js";

const LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "uk", "ru", "tr", "ar", "hi", "zh", "ja", "ko"];

function Languages({ t, value, onChange }) {
  const names = useMemo(() => new Intl.DisplayNames([t.language], { type: "language" }), [t]);
  return html`<label class="field short">
    <span>${t("listen.language")}</span>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      <option value="">${t("listen.any")}</option>
      ${LANGUAGES.map((one) => html`<option key=${one} value=${one}>${names.of(one)}</option>`)}
    </select>
  </label>`;
}

function useLive(t, language) {
  const [words, setWords] = useState({ certain: "", partial: "" });
  const [level, setLevel] = useState(0);
  const [error, setError] = useState("");
  const [on, setOn] = useState(false);
  const session = useRef(null); // a promise of the function that ends it
  const ended = () => {
    session.current = null;
    setOn(false);
    setLevel(0);
  };
  const start = async () => {
    setOn(true);
    setError("");
    setWords({ certain: "", partial: "" });
    const text = (certain, partial) => setWords({ certain, partial });
    try {
      session.current = listen(t, language, { text, level: setLevel, error: setError, closed: ended });
      await session.current;
    } catch (failure) {
      ended();
      setError(failure.message);
    }
  };
  const stop = async () => {
    const under = session.current;
    if (!under) return;
    session.current = null;
    const end = await under.catch(() => null); // the microphone may not be open yet; `start` tells an error
    if (!end) return;
    const certain = await end();
    ended();
    setWords({ certain, partial: "" });
  };
  useEffect(() => () => void session.current?.then((end) => end(), () => {}), []);
  return { words, level, error, on, start, stop };
}

function Live({ t, language }) {
  const live = useLive(t, language);
  const { certain, partial } = live.words;
  const blob = useMemo(() => new Blob([`${certain}\n`], { type: "text/plain" }), [certain]);
  return html`<div class="card">
    <div class="row">
      <button type="button" class=${`button ${live.on ? "" : "primary"}`} onClick=${live.on ? live.stop : live.start}>
        <${Icon} name=${live.on ? "stop" : "microphone"} />${t(live.on ? "listen.stop" : "listen.start")}
      </button>
      <meter class="level" hidden=${!live.on} min="0" max="1" value=${live.level} aria-label=${t("listen.level")} />
      <span class="spread" />
      ${!live.on && certain && html`<${Download} blob=${blob} name="transcript.txt">TXT<//>`}
    </div>
    ${live.error && html`<p class="error" role="alert">${live.error}</p>`}
    <p class="transcript live" role="log" aria-label=${t("listen.text")} tabindex="0">
      ${certain} <span class="partial">${partial}</span>
      ${!certain && !partial && html`<span class="muted">${t(live.on ? "listen.hearing" : "listen.hint")}</span>`}
    </p>
  </div>`;
}

export function Listen({ t, server, settings }) {
  const [language, setLanguage] = useState("");
  const hears = server.models.some((one) => one.type === "asr");
  return html`<section class="panel narrow">
    <h1>${t("nav.listen")}</h1>
    ${!hears && server.state === "ok" && html`<p class="error">${t("listen.none")}</p>`}
    <${Languages} t=${t} value=${language} onChange=${setLanguage} />
    <h2>${t("listen.live")}</h2>
    <${Live} t=${t} language=${language} />
    <h2>${t("listen.files")}</h2>
    <${Transcripts} t=${t} language=${language} settings=${settings} />
  </section>`;
}
