// The chat: conversations at the side, one of them open, and the field for the next question.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Composer } from "./composer.js";
import { Icon, IconButton } from "./icons.js";
import { Message } from "./message.js";
import { namesOf } from "./server.js";
import { useChat } from "./chat_state.js";
import { useSpeaker } from "./speaker.js";

const NEAR_END = 80;

function Conversations({ t, chat, onOpen }) {
  const open = (id) => (chat.open(id), onOpen());
  return html`<ul class="conversations">
    ${chat.list.map(
      (one) => html`<li key=${one.id} class=${one.id === chat.current.id ? "current" : ""}>
        <button type="button" class="conversation" aria-current=${one.id === chat.current.id ? "true" : null} onClick=${() => open(one.id)}>
          ${one.title}
        </button>
        <${IconButton} class="small" icon="remove" label=${t("chat.remove", { title: one.title })} onClick=${() => chat.remove(one.id)} />
      </li>`,
    )}
  </ul>`;
}

/** Follows the end of the conversation until the reader scrolls up. */
function useFollow(messages) {
  const place = useRef(null);
  const follows = useRef(true);
  useEffect(() => {
    if (follows.current) place.current.scrollTop = place.current.scrollHeight;
  }, [messages]);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = place.current;
    follows.current = scrollHeight - scrollTop - clientHeight < NEAR_END;
  };
  return { place, onScroll };
}

function Welcome({ t, models }) {
  const [name] = namesOf(models, "llm", "vision");
  return html`<div class="welcome">
    <h2>${t("chat.welcome")}</h2>
    <p class="muted">${name ? t("chat.local", { name }) : t("chat.none")}</p>
  </div>`;
}

export function Chat({ t, server, settings, shown }) {
  const [listed, setListed] = useState(false);
  const speaker = useSpeaker(settings);
  const speaks = server.models.some((one) => one.type === "tts");
  const onDone = (id, index, text) => settings.speakAnswers && speaks && speaker.say(`${id} ${index}`, text);
  const chat = useChat({ t, settings, onDone });
  const { current, running } = chat;
  const { messages } = current;
  const { place, onScroll } = useFollow(messages);
  const sees = server.models.some((one) => one.type === "vision");
  const runsHere = running?.id === current.id;
  useEffect(() => {
    if (!shown) speaker.stop();
  }, [shown]);

  /** The chosen model; the server's own choice where the chosen one cannot see the pictures. */
  const modelFor = (pictures) => {
    const needsEyes = pictures?.length || messages.some((one) => one.pictures?.length);
    return !needsEyes || namesOf(server.models, "vision").includes(settings.model) ? settings.model : "";
  };
  const ask = {
    send: (text, pictures) => chat.send(text, pictures, modelFor(pictures)),
    edit: (index, text) => chat.edit(index, text, modelFor()),
    again: () => chat.again(modelFor()),
  };
  return html`<section class=${`chat ${listed ? "listed" : ""}`}>
    <h1 class="unseen">${t("nav.chat")}</h1>
    <section class="past" aria-label=${t("chat.list")}>
      <button type="button" class="button" onClick=${() => (chat.begin(), setListed(false))}><${Icon} name="add" />${t("chat.new")}</button>
      <${Conversations} t=${t} chat=${chat} onOpen=${() => setListed(false)} />
    </section>
    <div class="talk-column">
      <div class="chat-head">
        <${IconButton} class="list-button" icon="list" label=${t("chat.list")} aria-expanded=${listed} onClick=${() => setListed(!listed)} />
        <details class="system">
          <summary>${t("settings.system")}</summary>
          <textarea rows="2" aria-label=${t("settings.system")} value=${current.system} onInput=${(event) => chat.setSystem(event.target.value)} />
        </details>
        <${IconButton} class="list-button" icon="add" label=${t("chat.new")} onClick=${chat.begin} />
      </div>
      <div class="messages" ref=${place} onScroll=${onScroll} tabindex="0" role="log" aria-label=${t("chat.log")}>
        ${messages.length === 0 && html`<${Welcome} t=${t} models=${server.models} />`}
        ${messages.map((message, index) => {
          const id = `${current.id} ${index}`;
          const last = index === messages.length - 1;
          return html`<${Message} key=${id} message=${message} t=${t} last=${last} busy=${Boolean(running)} running=${runsHere && last}
            speaking=${speaker.id === id} onSpeak=${speaks ? () => speaker.toggle(id, message.content) : null}
            onEdit=${(text) => ask.edit(index, text)} onAgain=${ask.again} />`;
        })}
      </div>
      ${(chat.error || speaker.error) && html`<p class="error" role="alert">${chat.error || speaker.error}</p>`}
      <${Composer} t=${t} shown=${shown} running=${Boolean(running)} sees=${sees} blind=${!sees && server.state === "ok"} hears=${server.models.some((one) => one.type === "asr")}
        onSend=${ask.send} onStop=${chat.stop} />
    </div>
  </section>`;
}
