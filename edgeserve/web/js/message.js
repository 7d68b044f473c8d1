// One message of a conversation.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { IconButton } from "./icons.js";
import { Picture } from "./pictures.js";

let markdown = null; // the module, once an answer needed it

function useMarkdown() {
  const [loaded, setLoaded] = useState(markdown);
  useEffect(() => {
    if (loaded) return;
    import("./markdown.js").then((module) => {
      markdown = module;
      setLoaded(module);
    });
  }, []);
  return loaded;
}

function Markdown({ text, module }) {
  const place = useRef(null);
  useLayoutEffect(() => {
    if (module) place.current.replaceChildren(module.rendered(text));
    else place.current.textContent = text;
  }, [text, module]);
  return html`<div class="markdown" ref=${place} />`;
}

function Copy({ text, t }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<${IconButton} class="small" icon=${done ? "check" : "copy"} label=${t(done ? "chat.copied" : "chat.copy")} onClick=${copy} />`;
}

async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // a page over plain HTTP has no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function figures(stats, t) {
  if (!stats?.tokens) return "";
  const number = (value, digits) => value.toLocaleString(t.language, { maximumFractionDigits: digits });
  return t("chat.figures", { speed: number(stats.speed, 1), tokens: number(stats.tokens, 0), first: number(stats.first, 1) });
}

function Editor({ message, t, onDone, onCancel }) {
  const [text, setText] = useState(message.content);
  const area = useRef(null);
  useEffect(() => area.current.focus(), []);
  return html`<form class="editor" onSubmit=${(event) => (event.preventDefault(), onDone(text))}>
    <textarea ref=${area} aria-label=${t("chat.edit")} rows="3" value=${text} onInput=${(event) => setText(event.target.value)} />
    <div class="row">
      <button class="button primary" disabled=${!text.trim()}>${t("chat.ask")}</button>
      <button type="button" class="button" onClick=${onCancel}>${t("chat.cancel")}</button>
    </div>
  </form>`;
}

function Question({ message, t, busy, onEdit }) {
  const [editing, setEditing] = useState(false);
  if (editing) {
    const done = (text) => (setEditing(false), onEdit(text));
    return html`<${Editor} message=${message} t=${t} onDone=${done} onCancel=${() => setEditing(false)} />`;
  }
  return html`<article class="message user" aria-label=${t("chat.you")}>
    ${message.pictures?.map((url, number) => html`<${Picture} key=${number} url=${url} label=${t("chat.picture", { number: number + 1 })} />`)}
    ${message.content && html`<p>${message.content}</p>`}
    <div class="actions">
      <${Copy} text=${message.content} t=${t} />
      ${!busy && html`<${IconButton} class="small" icon="edit" label=${t("chat.edit")} onClick=${() => setEditing(true)} />`}
    </div>
  </article>`;
}

function Answer({ message, t, busy, running, last, speaking, onSpeak, onAgain }) {
  const module = useMarkdown(); // fetched while the model reads the question
  const thinks = running && !message.content;
  return html`<article class="message answer" aria-label=${t("chat.answer")} aria-busy=${running}>
    ${message.reasoning &&
    html`<details class="reasoning" open=${false}>
      <summary>${t(thinks ? "chat.thinking" : "chat.thoughts")}</summary>
      <div class="thoughts">${message.reasoning}</div>
    </details>`}
    ${thinks && !message.reasoning && html`<p class="waiting" role="status"><span class="unseen">${t("chat.waiting")}</span><i /><i /><i /></p>`}
    ${message.content && html`<${Markdown} text=${message.content} module=${module} />`}
    ${message.error && html`<p class="error" role="alert">${message.error}</p>`}
    ${!running &&
    html`<div class="actions">
      ${message.content && html`<${Copy} text=${message.content} t=${t} />`}
      ${message.content && onSpeak && html`<${IconButton} class="small" icon=${speaking ? "stop" : "speak"}
        label=${t(speaking ? "chat.quiet" : "chat.aloud")} aria-pressed=${speaking} onClick=${onSpeak} />`}
      ${last && !busy && html`<${IconButton} class="small" icon="again" label=${t("chat.again")} onClick=${onAgain} />`}
      <small>${message.stopped ? `${t("chat.stopped")} ` : ""}${message.cut ? `${t("chat.cut")} ` : ""}${figures(message.stats, t)}</small>
    </div>`}
  </article>`;
}

export function Message(properties) {
  return properties.message.role === "user" ? html`<${Question} ...${properties} />` : html`<${Answer} ...${properties} />`;
}
