// The memory timeline: a picture of the last half hour, its figures, and what happened.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Cluster } from "./cluster.js";
import { clock, minutes, size } from "./i18n.js";
import { draw, heightOf, History, inAll, layout, markNear, ownMemory, rungOf, sizes } from "./memory_timeline.js";

const KEYS = { ArrowLeft: -10, ArrowRight: 10, PageDown: -60, PageUp: 60, Home: -Infinity, End: Infinity };
const ROWS = 10;
const SHOWN = 40;
const FILLED = 0.3;

/** The history, which follows the feed, and whether the line is open. */
function useHistory(api) {
  const history = useRef(new History());
  const [, renew] = useState(0);
  const [line, setLine] = useState("open");
  useEffect(() => {
    let asked = 0;
    const later = () => {
      asked ||= requestAnimationFrame(() => {
        asked = 0;
        renew((count) => count + 1);
      });
    };
    const stop = api.stream("/memory/feed", (event) => (history.current.feed(event), later()), setLine);
    const watcher = new ResizeObserver(later);
    watcher.observe(document.body);
    return () => (stop(), watcher.disconnect(), cancelAnimationFrame(asked));
  }, []);
  return [history.current, line];
}

/** A happening in a sentence. */
function sentence(event, history, t) {
  const sized = ["taken", "expected", "freed", "saved"].map((name) => [name, size(event[`${name}_mb`] ?? 0, t)]);
  const levels = event.kind === "pressure" ? "level" : "rung";
  const said = (word) => (word ? (levels === "level" ? t(`memory.level.${word}`) : t(`memory.rung.${word}`)) : "");
  return t(`memory.event.${event.kind}`, {
    ...event,
    ...Object.fromEntries(sized),
    name: history.name(event.model),
    before: said(event.before),
    after: said(event.after),
    reason: event.reason && t(`memory.why.${event.reason}`),
    what: event.what && t(`memory.why.${event.what}`),
    code: event.code ?? t("memory.code.hung"),
  });
}

function Tile({ label, value, note, kind = "" }) {
  return html`<div class=${`tile ${kind}`}><dt>${label}</dt><dd><strong>${value}</strong>${note && html`<small>${note}</small>`}</dd></div>`;
}

function Tiles({ history, t }) {
  const { latest, levels } = history;
  const level = levels[latest.pressure];
  return html`<dl class="tiles">
    <${Tile} label=${t("memory.pressure")} value=${t(`memory.level.${level}`)} kind=${level.toLowerCase()}
      note=${t("memory.percent", { percent: latest.percent })} />
    <${Tile} label=${t("memory.used")} value=${size(inAll(latest), t)} />
    <${Tile} label=${t("memory.budget")} value=${size(latest.budget_mb, t)} />
    <${Tile} label=${t("memory.available")} value=${size(latest.available_mb, t)} />
  </dl>`;
}

/** The figures of a sample, a line each. */
function figures(sample, history, t) {
  const models = history.ids
    .filter((id) => sample.models[id])
    .map((id) => {
      const [own, mapped] = sizes(sample.models[id]);
      return `${history.name(id)}: ${t(`memory.rung.${history.rungs[rungOf(sample.models[id])]}`)}, ${size(own + mapped, t)}`;
    });
  return [`${t("memory.used")}: ${size(inAll(sample), t)}`, `${t("memory.available")}: ${size(sample.available_mb, t)}`, ...models];
}

function Picture({ history, whole, t }) {
  const canvas = useRef(null);
  const [cursor, setCursor] = useState(null);
  const width = canvas.current?.clientWidth ?? 0;
  const place = layout(history, width, whole);
  const time = cursor === null ? null : Math.min(place.end, Math.max(place.start, cursor));
  const words = {
    size: (mb) => size(mb, t),
    minutes: (count) => (count ? minutes(count, t) : t("memory.now")),
  };
  useEffect(() => {
    const shown = layout(history, canvas.current.clientWidth, whole);
    draw(canvas.current, history, { place: shown, words, cursor: time });
  });
  const point = (event) => setCursor(place.time(event.clientX - canvas.current.getBoundingClientRect().left));
  const press = (event) => {
    if (event.key === "Escape") return setCursor(null);
    if (!(event.key in KEYS)) return undefined;
    event.preventDefault();
    return setCursor(Math.min(place.end, Math.max(place.start, (time ?? place.end) + KEYS[event.key])));
  };
  const sample = time === null ? history.latest : history.at(time);
  const mark = time === null ? undefined : markNear(history, place, place.x(time));
  const told = [clock(sample.at, t), ...(mark ? [sentence(mark, history, t)] : []), ...figures(sample, history, t)];
  return html`<div class="timeline" role="slider" tabindex="0" aria-label=${t("memory.picture")} onKeyDown=${press}
    aria-valuemin=${Math.round(place.start)} aria-valuemax=${Math.round(place.end)} aria-valuenow=${Math.round(time ?? place.end)}
    aria-valuetext=${told.join("; ")} onPointerMove=${point} onPointerDown=${point} onPointerLeave=${() => setCursor(null)} onBlur=${() => setCursor(null)}>
    <canvas ref=${canvas} style=${{ height: `${heightOf(history)}px` }} aria-hidden="true" />
    ${time !== null && html`<div class=${`tip ${place.x(time) > width / 2 ? "left" : ""}`} style=${{ left: `${place.x(time)}px` }} aria-hidden="true">
      ${told.map((text, number) => html`<div key=${number} class=${number === 1 && mark ? "why" : ""}>${text}</div>`)}
    </div>`}
  </div>`;
}

function Legend({ history, t }) {
  const { latest } = history;
  return html`<ul class="legend">
    <li><span class="swatch own" aria-hidden="true" />${t("memory.server")} <small>${size(ownMemory(latest), t)}</small></li>
    ${history.ids.map((id) => {
      const [own, mapped] = sizes(latest.models[id]);
      return html`<li key=${id}><span class=${`swatch ${history.colour(id)}`} aria-hidden="true" />${history.name(id)}
        <small>${size(own, t)} ${t("memory.private")}, ${size(mapped, t)} ${t("memory.mapped")}</small></li>`;
    })}
    <li><span class="stroke" aria-hidden="true" />${t("memory.budget")}</li>
    <li><span class="stroke dashed" aria-hidden="true" />${t("memory.available")}</li>
  </ul>`;
}

function Events({ history, t }) {
  const last = history.events.slice(-SHOWN).reverse();
  if (!last.length) return html`<p class="muted">${t("memory.none")}</p>`;
  return html`<ol class="happenings" tabindex="0" aria-label=${t("memory.last")}>${last.map(
    (event) => html`<li key=${`${event.at} ${event.kind} ${event.model}`} class=${event.kind}><time>${clock(event.at, t)}</time><span>${sentence(event, history, t)}</span></li>`,
  )}</ol>`;
}

function Table({ history, t }) {
  const { samples, ids, levels } = history;
  const every = Math.max(1, Math.ceil(samples.length / ROWS));
  const rows = samples.filter((_, number) => (samples.length - 1 - number) % every === 0).reverse();
  const head = ["time", "pressure", "server", "budget", "available"].map((name) => t(`memory.${name}`));
  return html`<details class="card"><summary>${t("memory.table")}</summary><div class="wide" tabindex="0" role="region" aria-label=${t("memory.table")}><table>
    <thead><tr>${[...head, ...ids.map((id) => history.name(id))].map((text) => html`<th key=${text} scope="col">${text}</th>`)}</tr></thead>
    <tbody>${rows.map((one) => html`<tr key=${one.at}><th scope="row">${clock(one.at, t)}</th><td>${t(`memory.level.${levels[one.pressure]}`)}</td>
      <td>${size(ownMemory(one), t)}</td><td>${size(one.budget_mb, t)}</td><td>${size(one.available_mb, t)}</td>
      ${ids.map((id) => {
        const [own, mapped] = sizes(one.models[id]);
        return html`<td key=${id}>${t(`memory.rung.${history.rungs[rungOf(one.models[id])]}`)}, ${size(own + mapped, t)}</td>`;
      })}</tr>`)}</tbody>
  </table></div></details>`;
}

/** Whether a picture as high as the budget shows more than a line at its bottom. */
function fillsBudget({ samples }) {
  return samples.some((one) => inAll(one) > FILLED * Math.max(one.budget_mb, one.available_mb));
}

export function Memory({ api, t }) {
  const [history, line] = useHistory(api);
  const [chosen, setWhole] = useState(null);
  const whole = chosen ?? fillsBudget(history);
  const trouble = line === "lost" ? t("memory.lost") : line.message;
  return html`<section class="panel memory">
    <h1>${t("memory.title")}</h1>
    <p class="muted">${t("memory.lead")}</p>
    ${trouble && html`<p class="error" role="alert">${trouble}</p>`}
    ${history.latest
      ? html`<${Tiles} history=${history} t=${t} />
          <div class="card">
            <${Picture} history=${history} whole=${whole} t=${t} />
            <label class="tick"><input type="checkbox" checked=${whole} onChange=${(event) => setWhole(event.target.checked)} />${t("memory.whole")}</label>
            <${Legend} history=${history} t=${t} />
          </div>
          <h2>${t("memory.last")}</h2>
          <${Events} history=${history} t=${t} />
          <${Table} history=${history} t=${t} />`
      : html`<p role="status">${t("memory.wait")}</p>`}
    <${Cluster} api=${api} t=${t} />
  </section>`;
}
