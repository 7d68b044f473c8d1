// Files to transcribe: a list with their texts, and the subtitles to save.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.module.js";
import { request } from "./api.js";
import { keepAlive } from "./completion.js";
import { Download } from "./download.js";
import { Icon, IconButton } from "./icons.js";

function time(seconds, mark) {
  const milliseconds = Math.round(1000 * seconds);
  const pad = (value, digits) => String(value).padStart(digits, "0");
  const clock = [milliseconds / 3_600_000, (milliseconds / 60_000) % 60, (milliseconds / 1000) % 60];
  return `${clock.map((one) => pad(Math.floor(one), 2)).join(":")}${mark}${pad(milliseconds % 1000, 3)}`;
}

function cue(segment, mark) {
  const text = segment.text.trim().replace(/\n{2,}/g, "\n").replaceAll("-->", "→"); // it would end the cue
  return `${time(segment.start, mark)} --> ${time(segment.end, mark)}\n${text}\n`;
}

const forms = {
  srt: { type: "application/x-subrip", write: ({ segments }) => segments.map((one, at) => `${at + 1}\n${cue(one, ",")}`).join("\n") },
  vtt: { type: "text/vtt", write: ({ segments }) => `WEBVTT\n\n${segments.map((one) => cue(one, ".")).join("\n")}` },
  txt: { type: "text/plain", write: ({ text }) => `${text.trim()}\n` },
};

async function transcribe(file, language, settings, signal) {
  const body = new FormData();
  body.set("file", file);
  body.set("response_format", "verbose_json");
  if (language) body.set("language", language);
  if (settings.keepAlive) body.set("keep_alive", String(keepAlive(settings)));
  return (await request("/v1/audio/transcriptions", { method: "POST", body, signal })).json();
}

/** One file after the other: the model hears one at a time. */
function useQueue(language, settings) {
  const [jobs, setJobs] = useState([]);
  const chain = useRef(Promise.resolve());
  const stopping = useRef(new Map());
  useEffect(() => () => stopping.current.forEach((abort) => abort.abort()), []);
  const change = (id, part) => setJobs((all) => all.map((one) => (one.id === id ? { ...one, ...part } : one)));
  const run = async (job, abort) => {
    if (abort.signal.aborted) return;
    change(job.id, { state: "running" });
    try {
      change(job.id, { state: "done", result: await transcribe(job.file, language, settings, abort.signal) });
    } catch (error) {
      if (error.name !== "AbortError") change(job.id, { state: "failed", error: error.message });
    }
  };
  const add = (files) => {
    for (const file of files) {
      const job = { id: `${performance.now()} ${file.name}`, file, state: "waiting" };
      const abort = new AbortController();
      stopping.current.set(job.id, abort);
      setJobs((all) => [job, ...all]);
      chain.current = chain.current.then(() => run(job, abort));
    }
  };
  const remove = (id) => {
    stopping.current.get(id).abort();
    setJobs((all) => all.filter((one) => one.id !== id));
  };
  return { jobs, add, remove };
}

function Result({ job, t }) {
  const { result } = job;
  const stem = job.file.name.replace(/\.[^.]*$/, "");
  const blobs = useMemo(
    () => Object.entries(forms).map(([form, { type, write }]) => [form, new Blob([write(result)], { type })]),
    [result],
  );
  return html`<p class="transcript" tabindex="0">${result.text.trim() || html`<span class="muted">${t("files.empty")}</span>`}</p>
    <div class="row">
      ${blobs.map(([form, blob]) => html`<${Download} key=${form} blob=${blob} name=${`${stem}.${form}`}>${form.toUpperCase()}<//>`)}
    </div>`;
}

export function Transcripts({ t, language, settings }) {
  const { jobs, add, remove } = useQueue(language, settings);
  const [over, setOver] = useState(false);
  const input = useRef(null);
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    add(event.dataTransfer.files);
  };
  const dragging = (event) => (event.preventDefault(), setOver(true));
  return html`<div class=${`drop ${over ? "over" : ""}`} onDragOver=${dragging} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <input ref=${input} type="file" accept="audio/*,video/*" multiple hidden aria-label=${t("files.choose")}
        onChange=${(event) => (add(event.target.files), (event.target.value = ""))} />
      <button type="button" class="button" onClick=${() => input.current.click()}><${Icon} name="file" />${t("files.choose")}</button>
      <p class="muted">${t("files.drop")}</p>
    </div>
    ${jobs.map(
      (job) => html`<article key=${job.id} class="card" aria-busy=${job.state === "running"}>
        <div class="row">
          <h3 class="spread">${job.file.name}</h3>
          <small role="status">${t(`files.${job.state}`)}</small>
          <${IconButton} class="small" icon="close" label=${t("files.remove", { name: job.file.name })} onClick=${() => remove(job.id)} />
        </div>
        ${job.state === "running" && html`<progress aria-label=${t("files.running")} />`}
        ${job.error && html`<p class="error" role="alert">${job.error}</p>`}
        ${job.result && html`<${Result} job=${job} t=${t} />`}
      </article>`,
    )}`;
}
