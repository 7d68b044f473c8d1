// The models: those that are served, those on the device, and those that suit it.

import { html, useCallback, useEffect, useState } from "../vendor/preact-htm.module.js";
import { duration, size } from "./i18n.js";

const ENDED = ["success", "failed", "cancelled"];
const HELPERS = ["speaker", "vad"];
const LOOK = 1000;
const MB = 1 << 20;
const COLUMNS = ["column", "job", "memory", "speed", "note", "size"];

/** A path that ends with a name: its slashes stay, as the server's routes take them. */
function at(path, name) {
  return `${path}/${name.split("/").map(encodeURIComponent).join("/")}`;
}

/** A button whose name says what it is about. */
function Act({ label, about, kind = "", ...rest }) {
  return html`<button type="button" class=${`button ${kind}`} aria-label=${`${label}: ${about}`} ...${rest}>${label}</button>`;
}

/** Rows of the models that are served, as they change. */
function useServed(api) {
  const [rows, setRows] = useState(null);
  const [line, setLine] = useState("open");
  const take = (event) => event.type === "models" && setRows(event.models);
  useEffect(() => api.stream("/memory/feed?past=0", take, setLine), []);
  return [rows, line];
}

/** Pulls and the models on the device, read again each second while a pull is under way. */
function useDevice(api, onError) {
  const [device, setDevice] = useState({ pulls: [], models: [] });
  const look = useCallback(async () => {
    try {
      const [{ pulls }, { models }] = await Promise.all([api.get("/admin/pulls"), api.get("/admin/models")]);
      setDevice({ pulls, models });
    } catch (error) {
      onError(error);
    }
  }, []);
  const busy = device.pulls.some((one) => !ENDED.includes(one.status));
  useEffect(() => void look(), []);
  useEffect(() => {
    if (!busy) return undefined;
    const timer = setInterval(look, LOOK);
    return () => clearInterval(timer);
  }, [busy]);
  return [device, look];
}

function Rung({ rung, t }) {
  return html`<span class=${`rung ${rung}`}>${t(`memory.rung.${rung}`)}</span>`;
}

function Served({ row, act, busy, t }) {
  const { id, model_name: name, leases } = row;
  const move = (how) => act(id, (api) => api.post(`/admin/${how}`, { model: id }));
  const used = row.use_count ? t("models.idle", { time: duration(row.idle_seconds, t) }) : t("models.unused");
  return html`<li class="model">
    <div class="spread"><strong>${name}</strong> ${row.default && html`<span class="badge">${t("models.default")}</span>`}
      <small>${t(`models.job.${row.model_type}`)} · ${leases ? t("models.requests", { count: leases }) : used}</small></div>
    <${Rung} rung=${row.rung} t=${t} />
    <span class="figure">${row.rung === "cold" ? "–" : size(row.memory_mb, t)}</span>
    <div class="row">
      <${Act} label=${t("models.load")} about=${name} disabled=${busy || row.rung === "hot"} aria-busy=${busy === id} onClick=${() => move("load")} />
      <${Act} label=${t("models.unload")} about=${name} disabled=${busy || row.rung === "cold"} onClick=${() => move("unload")} />
    </div>
  </li>`;
}

function Pull({ pull, act, t }) {
  const over = ENDED.includes(pull.status);
  const share = pull.total ? Math.round((100 * pull.done) / pull.total) : null;
  const part = pull.part && pull.part !== pull.model ? ` (${pull.part})` : "";
  const stage = t(`models.stage.${pull.status}`);
  return html`<li class="model">
    <div class="spread"><strong>${pull.model}</strong>${part}
      <small role="status">${stage}${!over && share !== null ? ` ${share} %` : ""}</small>
      ${!over && html`<progress max="100" value=${share} aria-label=${`${pull.model}: ${stage}`} />`}
      ${pull.error && html`<p class="error">${pull.error.message}</p>`}</div>
    ${!over && html`<${Act} label=${t("models.cancel")} about=${pull.model} onClick=${() => act("cancel", (api) => api.delete(at("/admin/pulls", pull.model)))} />`}
  </li>`;
}

/** `served`: a model of the list above has its buttons there. Speakers and speech detection help other models. */
function Stored({ model, served, act, busy, t }) {
  const load = () => act(model.name, (api) => api.post("/admin/load", { model: model.name }));
  const loads = !served && !model.error && !HELPERS.includes(model.job);
  const remove = () => confirm(t("models.remove.sure", { name: model.name })) && act("remove", (api) => api.delete(at("/admin/models", model.name)));
  return html`<li class="model">
    <div class="spread"><strong>${model.name}</strong>
      ${model.error ? html`<p class="error">${model.error.message}</p>` : html`<small>${t(`models.job.${model.job}`)} · ${model.licence}</small>`}</div>
    ${model.size_bytes && html`<span class="figure">${size(model.size_bytes / MB, t)}</span>`}
    ${loads && html`<${Act} label=${t("models.load")} about=${model.name} disabled=${busy} aria-busy=${busy === model.name} onClick=${load} />`}
    <${Act} label=${t("models.remove")} about=${model.name} kind="danger" disabled=${busy} onClick=${remove} />
  </li>`;
}

function PullForm({ pull, busy, t }) {
  const [name, setName] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (name.trim()) pull(name.trim()).then((done) => done && setName(""));
  };
  return html`<form class="pull" onSubmit=${submit}>
    <label class="field spread"><span>${t("models.pull.name")}</span>
      <input name="pull" maxlength="4096" autocomplete="off" spellcheck=${false} value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <button class="button primary" disabled=${busy || !name.trim()}>${t("models.pull.start")}</button>
    <small>${t("models.pull.hint")}</small>
  </form>`;
}

function speedOf({ speed }, t) {
  if (!speed) return "–";
  const digits = speed.answer < 10 ? 1 : 0;
  const figure = new Intl.NumberFormat(t.language, { maximumFractionDigits: digits }).format(speed.answer);
  return t(speed.unit === "tokens/s" ? "models.advice.tokens" : "models.advice.times", { figure });
}

function Row({ model, pull, busy, t }) {
  return html`<tr>
    <th scope="row">${model.name} ${model.best && html`<span class="badge">${t("models.advice.best")}</span>`}<small>${model.description}</small></th>
    <td>${t(`models.job.${model.job}`)}</td><td>${size(model.memory / MB, t)}</td><td>${speedOf(model, t)}</td><td>${model.reason}</td>
    <td>${size(model.size / MB, t)}</td>
    <td>${model.pulled ? t("models.advice.here") : html`<${Act} label=${t("models.pull.start")} about=${model.name} disabled=${busy} onClick=${() => pull(model.name)} />`}</td>
  </tr>`;
}

/** Models that fit and are quick enough; the best of each job first. */
function Advice({ api, t, pull, busy }) {
  const [state, setState] = useState({});
  const ask = async () => {
    setState({ waits: true });
    try {
      const { models } = await api.get("/admin/recommend");
      setState({ models: models.filter((one) => one.suits || one.best) });
    } catch (error) {
      setState({ error });
    }
  };
  return html`
    <p><button type="button" class="button" disabled=${state.waits} onClick=${ask}>${t("models.advice.ask")}</button></p>
    ${state.waits && html`<p role="status">${t("models.advice.wait")}</p>`}
    ${state.error && html`<p class="error" role="alert">${state.error.message}</p>`}
    ${state.models && html`<div class="card wide" tabindex="0" role="region" aria-label=${t("models.advice")}><table class="advice">
      <thead><tr>${COLUMNS.map((name) => html`<th key=${name} scope="col">${t(`models.advice.${name}`)}</th>`)}<td /></tr></thead>
      <tbody>${state.models.map((one) => html`<${Row} key=${one.name} model=${one} pull=${pull} busy=${busy} t=${t} />`)}</tbody>
    </table></div>`}
  `;
}

export function Models({ api, t, server }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(null);
  const [rows, line] = useServed(api);
  const [device, look] = useDevice(api, setError);
  /** Does one thing at a time; returns whether it succeeded. */
  const act = async (what, work) => {
    setBusy(what);
    setError(null);
    try {
      await work(api);
      return true;
    } catch (failure) {
      setError(failure);
      return false;
    } finally {
      setBusy(null);
      await look();
      server?.refresh();
    }
  };
  const pull = (model) => act("pull", (to) => to.post("/admin/pull", { model, background: true }));
  const shared = { act, busy, t };
  const trouble = error ?? (line === "lost" ? new Error(t("memory.lost")) : line instanceof Error ? line : null);
  return html`<section class="panel models">
    <h1>${t("models.title")}</h1>
    ${trouble && html`<p class="error" role="alert">${trouble.message}</p>`}
    <h2>${t("models.served")}</h2>
    ${rows && !rows.length && html`<p class="muted">${t("models.none")}</p>`}
    <ul class="cards">${rows?.map((row) => html`<${Served} key=${row.id} row=${row} ...${shared} />`)}</ul>
    <h2>${t("models.pull")}</h2>
    <${PullForm} pull=${pull} busy=${busy} t=${t} />
    <ul class="cards">${device.pulls.map((one) => html`<${Pull} key=${one.model} pull=${one} ...${shared} />`)}</ul>
    <h2>${t("models.advice")}</h2>
    <${Advice} api=${api} t=${t} pull=${pull} busy=${busy} />
    <h2>${t("models.device")}</h2>
    <p class="muted">${device.models.length ? t("models.device.more") : t("models.device.none")}</p>
    <ul class="cards">${device.models.map((one) => html`<${Stored} key=${one.name} model=${one} ...${shared}
      served=${rows?.some((row) => row.model_name === one.name)} />`)}</ul>
  </section>`;
}
