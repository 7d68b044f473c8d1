// The boxes of a cluster: memory, pressure and models of each. Nothing where this server knows no other box.

import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { size } from "./i18n.js";

const LOOK = 2000;
const MB = 1 << 20;

/** The snapshot of all boxes while the page is visible, and the server's words when it refuses. */
function useCluster(api) {
  const [cluster, setCluster] = useState({ nodes: [], silent: {} });
  const [refused, setRefused] = useState("");
  useEffect(() => {
    const stopping = new AbortController();
    const { signal } = stopping;
    let timer = 0;
    const look = async () => {
      try {
        const found = document.hidden ? null : await api.get("/cluster/status", { signal });
        if (found) setCluster(found);
        if (found && !found.nodes.length && !Object.keys(found.silent).length) return; // one box alone stays alone
      } catch (error) {
        if (signal.aborted) return;
        if (error.status) return void setRefused(error.message); // without an answer, it comes back like the feed
      }
      timer = setTimeout(look, LOOK);
    };
    look();
    return () => (stopping.abort(), clearTimeout(timer));
  }, []);
  return [cluster, refused];
}

function Node({ node, silent, t }) {
  const { name, used, budget, pressure, requests } = node;
  const loaded = node.models.filter((one) => one.rung !== "cold");
  const words = t("cluster.used", { used: size(used / MB, t), budget: size(budget / MB, t) });
  return html`<li class="model">
    <div class="spread"><strong>${name}</strong> ${silent && html`<span class="badge bad">${t("cluster.silent")}</span>`}
      <small>${t("memory.pressure")}: ${t(`memory.level.${pressure}`)} · ${t("models.requests", { count: requests })} · ${words}</small>
      <progress max=${Math.max(1, budget)} value=${used} aria-label=${`${name}: ${words}`} />
      <small>${loaded.map((one) => `${one.name}: ${t(`memory.rung.${one.rung}`)}`).join(", ") || t("cluster.cold")}</small>
      ${silent && html`<p class="error">${silent}</p>`}</div>
  </li>`;
}

export function Cluster({ api, t }) {
  const [{ nodes, silent, pressure }, refused] = useCluster(api);
  const known = new Set(nodes.map((one) => one.name));
  const lost = Object.entries(silent).filter(([name]) => !known.has(name));
  if (refused) return html`<p class="error" role="alert">${refused}</p>`;
  if (!nodes.length && !lost.length) return null;
  return html`<h2>${t("cluster.title")}</h2>
    <p class="muted">${t("cluster.pressure", { level: t(`memory.level.${pressure}`) })}</p>
    <ul class="cards" aria-label=${t("cluster.title")}>
      ${nodes.map((one) => html`<${Node} key=${one.name} node=${one} silent=${silent[one.name]} t=${t} />`)}
      ${lost.map(([name, why]) => html`<li key=${name} class="model"><div class="spread">
        <strong>${name}</strong> <span class="badge bad">${t("cluster.silent")}</span><p class="error">${why}</p></div></li>`)}
    </ul>`;
}
