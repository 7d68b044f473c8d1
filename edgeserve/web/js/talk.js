// The panel of spoken conversations.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "./icons.js";
import { Conversation } from "./realtime.js";

const NEEDED = ["asr", "llm", "tts"];

function missing(models) {
  return NEEDED.filter((job) => !models.some((one) => one.type === job || (job === "llm" && one.type === "vision")));
}

function useConversation(t, settings) {
  const [state, setState] = useState("ended");
  const [lines, setLines] = useState([]);
  const [level, setLevel] = useState(0);
  const [error, setError] = useState("");
  const under = useRef(null);
  const start = async () => {
    setError("");
    setLines([]);
    const one = new Conversation(t, settings, { state: setState, lines: setLines, level: setLevel, error: setError });
    under.current = one;
    try {
      await one.start();
    } catch (failure) {
      setError(failure.message);
      one.stop();
    }
  };
  const stop = () => {
    under.current?.stop();
    setLevel(0);
  };
  useEffect(() => stop, []);
  return { state, lines, level, error, start, stop };
}

export function Talk({ t, server, settings }) {
  const talk = useConversation(t, settings);
  const lacks = missing(server.models);
  const on = talk.state !== "ended";
  const end = useRef(null);
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [talk.lines]);
  return html`<section class="panel narrow talk">
    <h1>${t("nav.talk")}</h1>
    <p class="muted">${t("talk.how")}</p>
    ${lacks.length > 0 && server.state === "ok" && html`<p class="error">${t("talk.lacks", { jobs: lacks.map((job) => t(`job.${job}`)).join(", ") })}</p>`}
    <div class="stage">
      <button type="button" class=${`orb ${talk.state}`} style=${{ "--level": talk.level.toFixed(2) }} disabled=${lacks.length > 0}
        aria-label=${t(on ? "talk.stop" : "talk.start")} onClick=${on ? talk.stop : talk.start}>
        <${Icon} name=${on ? "stop" : "microphone"} />
      </button>
      <p class="state" role="status">${t(`talk.${talk.state}`)}</p>
    </div>
    ${talk.error && html`<p class="error" role="alert">${talk.error}</p>`}
    <ol class="lines" aria-label=${t("talk.lines")}>
      ${talk.lines.filter((line) => line.text).map(
        (line) => html`<li key=${line.id} class=${line.role}>
          <b>${t(line.role === "user" ? "chat.you" : "chat.answer")}</b>
          <span>${line.text}${line.cut && html` <small>${t("talk.cut")}</small>`}</span>
        </li>`,
      )}
      <li ref=${end} class="end" aria-hidden="true"></li>
    </ol>
  </section>`;
}
