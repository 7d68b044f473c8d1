// The conversations on the page, and the answer under way.

import { useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { complete } from "./completion.js";
import { allConversations, newConversation, removeConversation, saveConversation, whenCleared } from "./conversations.js";

const TITLE_CHARS = 60;

function titleOf(text, t) {
  const line = text.trim().split("\n")[0];
  return line.length > TITLE_CHARS ? `${line.slice(0, TITLE_CHARS)}…` : line || t("chat.pictures");
}

/** The list of conversations, the latest first, with the one that is open. */
function useList(settings, onError) {
  const [list, setList] = useState([]);
  const [draft, setDraft] = useState(() => newConversation(settings.system));
  const [id, setId] = useState(null);
  const latest = useRef([]);
  const gone = useRef(new Set()); // an answer under way must not bring its conversation back
  const show = (all) => setList((latest.current = all));
  useEffect(() => {
    allConversations().then(show, (error) => onError(error.message));
    return whenCleared(() => {
      for (const one of latest.current) gone.current.add(one.id);
      show([]);
      begin();
    });
  }, []);
  useEffect(() => setDraft((one) => ({ ...one, system: settings.system })), [settings.system]); // it has not begun
  const begin = () => {
    setDraft(newConversation(settings.system));
    setId(null);
  };
  /** Puts a conversation first in the list, and into the browser's store when `kept`. */
  const put = (conversation, kept) => {
    if (gone.current.has(conversation.id)) return;
    show([conversation, ...latest.current.filter((one) => one.id !== conversation.id)]);
    if (kept) saveConversation(conversation).catch((error) => onError(error.message));
  };
  const remove = (old) => {
    gone.current.add(old);
    show(latest.current.filter((one) => one.id !== old));
    if (old === id) begin();
    removeConversation(old).catch((error) => onError(error.message));
  };
  const current = list.find((one) => one.id === id) ?? draft;
  return { list, current, begin, put, remove, open: setId, setDraft };
}

function withLast(conversation, part) {
  const before = conversation.messages.slice(0, -1);
  return { ...conversation, messages: [...before, { ...conversation.messages.at(-1), ...part }] };
}

/** Calls `show` with the latest value at most once a frame. */
function oncePerFrame(show) {
  let value;
  let asked = 0;
  return (next) => {
    value = next;
    asked ||= requestAnimationFrame(() => ((asked = 0), show(value)));
    return () => cancelAnimationFrame(asked);
  };
}

export function useChat({ t, settings, onDone }) {
  const [error, setError] = useState("");
  const [running, setRunning] = useState(null);
  const { list, current, begin, put, remove, open, setDraft } = useList(settings, setError);

  const answer = async (asked, model) => {
    const abort = new AbortController();
    setRunning({ id: asked.id, abort });
    let shown = { ...asked, updated: Date.now(), messages: [...asked.messages, { role: "assistant", content: "" }] };
    let cancel = () => {};
    const show = oncePerFrame((part) => put(withLast(shown, part), false));
    let last = {};
    put(shown, true);
    open(asked.id);
    try {
      await complete(asked, { ...settings, model }, abort.signal, (part) => (cancel = show((last = part))));
    } catch (failure) {
      last = failure.name === "AbortError" ? { ...last, stopped: true } : { ...last, error: told(failure, t) };
    }
    cancel();
    shown = withLast(shown, last);
    put(shown, true);
    setRunning(null);
    if (!last.error && !last.stopped) onDone(shown.id, shown.messages.length - 1, last.content);
  };

  return {
    list, current, error, running, begin, open,
    remove: (id) => {
      if (running?.id === id) running.abort.abort();
      remove(id);
    },
    stop: () => running?.abort.abort(),
    setSystem: (system) => (current.messages.length ? put({ ...current, system }, true) : setDraft({ ...current, system })),
    send: (content, pictures, model) => {
      const title = current.title || titleOf(content, t);
      answer({ ...current, title, messages: [...current.messages, { role: "user", content, pictures }] }, model);
    },
    edit: (index, content, model) => {
      const before = current.messages.slice(0, index);
      answer({ ...current, messages: [...before, { ...current.messages[index], content }] }, model);
    },
    again: (model) => answer({ ...current, messages: current.messages.slice(0, -1) }, model),
  };
}

function told(failure, t) {
  return failure instanceof TypeError ? t("chat.lost") : failure.message; // TypeError: fetch's word for a cut line
}
