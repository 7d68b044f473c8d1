// The shell: navigation, the state of the server, and one panel at a time.

import { html, render, useEffect, useErrorBoundary, useMemo, useState } from "../vendor/preact-htm.module.js";
import { api } from "./api.js";
import { Chat } from "./chat.js";
import { languageOf, translator } from "./i18n.js";
import { Icon } from "./icons.js";
import { KeyForm } from "./key_form.js";
import { Listen } from "./listen.js";
import { Memory } from "./memory.js";
import { Models } from "./models.js";
import { useServer } from "./server.js";
import { useSettings } from "./settings.js";
import { Settings } from "./settings_panel.js";
import { Speak } from "./speak.js";
import { Talk } from "./talk.js";

const PANELS = { chat: Chat, talk: Talk, listen: Listen, speak: Speak, models: Models, memory: Memory, settings: Settings };

function panelOf(hash) {
  const name = hash.replace(/^#\/?/, "");
  return Object.hasOwn(PANELS, name) ? name : "chat";
}

function usePanel() {
  const [panel, setPanel] = useState(() => panelOf(location.hash));
  useEffect(() => {
    const listener = () => setPanel(panelOf(location.hash));
    addEventListener("hashchange", listener);
    return () => removeEventListener("hashchange", listener);
  }, []);
  return panel;
}

function Navigation({ panel, t }) {
  return html`<nav class="nav" aria-label=${t("nav.label")}>
    ${Object.keys(PANELS).map(
      (name) => html`<a key=${name} href=${`#${name}`} class="nav-link" aria-current=${name === panel ? "page" : null}>
        <${Icon} name=${name} /><span>${t(`nav.${name}`)}</span>
      </a>`,
    )}
  </nav>`;
}

/** Shows a panel; an error inside it stays inside it. */
function Guarded({ view: View, t, ...rest }) {
  const [error, retry] = useErrorBoundary((failure) => console.error(failure));
  if (!error) return html`<${View} t=${t} ...${rest} />`;
  return html`<section class="panel" role="alert">
    <h1>${t("broken.title")}</h1>
    <p>${error.message}</p>
    <button type="button" class="button" onClick=${retry}>${t("broken.again")}</button>
  </section>`;
}

function App() {
  const settings = useSettings();
  const language = languageOf(settings.language);
  const t = useMemo(() => translator(language), [language]);
  const panel = usePanel();
  const server = useServer(settings.key);
  useEffect(() => {
    document.documentElement.lang = language;
    document.title = `${t(`nav.${panel}`)} · edgeserve`;
  }, [language, panel]);
  useEffect(() => {
    document.documentElement.dataset.theme = settings.theme;
  }, [settings.theme]);
  const shared = { api, t, server, settings };
  return html`
    <a class="skip" href="#main" onClick=${skip}>${t("nav.skip")}</a>
    <header class="side">
      <div class="brand"><${Mark} />edgeserve<span class=${`dot ${server.state}`} role="img" aria-label=${t(`server.${server.state}`)} /></div>
      <${Navigation} panel=${panel} t=${t} />
    </header>
    <main id="main" tabindex="-1">
      ${server.state === "lost" && html`<p class="banner" role="alert">${t("server.lost.long")}</p>`}
      ${server.state === "locked"
        ? html`<${KeyForm} t=${t} wrong=${Boolean(settings.key)} />`
        : html`
            <div class="held" hidden=${panel !== "chat"}><${Guarded} view=${Chat} ...${shared} shown=${panel === "chat"} /></div>
            ${panel !== "chat" && html`<${Guarded} key=${panel} view=${PANELS[panel]} ...${shared} />`}
          `}
    </main>
  `;
}

function skip(event) {
  event.preventDefault(); // the address names the panel
  document.getElementById("main").focus();
}

function Mark() {
  return html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="8" /><path d="M9 20.5h14M9 16h9.5M9 11.5h14" />
  </svg>`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
