// A live transcription over the server's WebSocket, and dictation by it.

import { useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { socket } from "./api.js";
import { openMicrophone } from "./microphone.js";

const RATE = 16000;
const PROTOCOL = "edgeserve.live";
const LONGEST_WAIT = 20_000;

/**
 * Listens to the microphone. `on`: `text(certain, partial)` with all words so far, `level(loudness)`, `error(message)`.
 * Returns `stop()`, a promise of the whole text once the last words have come. Raises an Error when it cannot begin.
 */
export async function listen(t, language, on) {
  const line = await connect(t, language);
  let certain = ""; // of the sessions before this one
  let now = "";
  let partial = "";
  let trouble = t("live.lost");
  let ended = () => {};
  line.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.type === "error") return void on.error((trouble = message.error?.message ?? trouble));
    if (message.type !== "text" && message.type !== "flushed") return;
    now = message.transcript;
    partial = message.partial;
    if (message.type === "flushed") {
      certain = joined(certain, now);
      now = "";
      ended();
    }
    on.text(joined(certain, now), partial);
  };
  const all = () => joined(joined(certain, now), partial);
  const close = await openMicrophone(RATE, t, (samples, loudness) => {
    on.level?.(loudness);
    if (line.readyState === WebSocket.OPEN) line.send(samples);
  }).catch((error) => (line.close(), Promise.reject(error)));
  if (line.readyState !== WebSocket.OPEN) {
    close(); // the line was lost while the user was asked for the microphone
    throw new Error(trouble);
  }
  line.onclose = () => {
    close();
    ended();
    on.closed?.(all());
  };
  const stop = async () => {
    close();
    if (line.readyState === WebSocket.OPEN) {
      line.send(JSON.stringify({ type: "flush" }));
      await new Promise((resolve) => {
        ended = resolve;
        setTimeout(resolve, LONGEST_WAIT);
      });
    }
    line.onclose = null;
    line.close();
    return all();
  };
  return stop;
}

function joined(one, other) {
  return [one, other].filter(Boolean).join(" ").replace(/ {2,}/g, " ").trim();
}

function connect(t, language) {
  const query = language ? `?language=${encodeURIComponent(language)}` : "";
  const line = socket(`/v1/transcribe/live${query}`, PROTOCOL);
  return new Promise((resolve, reject) => {
    line.onopen = () => resolve(line);
    line.onclose = line.onerror = () => reject(new Error(t("live.refused")));
  });
}

/**
 * Dictation into a field: its words stand behind the text that was there. `{on, start(text), stop()}`.
 * `stop` gives the whole text; null where nothing was listening.
 */
export function useDictation(t, onError, onText) {
  const [on, setOn] = useState(false);
  const session = useRef(null);
  useEffect(() => () => void session.current?.begun.then((end) => end(), () => {}), []);
  const start = async (before) => {
    setOn(true);
    onError("");
    const begun = listen(t, "", {
      text: (certain, partial) => onText(joined(before, joined(certain, partial))),
      error: onError,
      closed: () => ((session.current = null), setOn(false)),
    });
    session.current = { begun, before };
    try {
      await begun;
    } catch (error) {
      session.current = null;
      setOn(false);
      onError(error.message);
    }
  };
  /** Also where the microphone is not open yet: then it closes as soon as it is. */
  const stop = async () => {
    const under = session.current;
    if (!under) return null;
    session.current = null;
    const end = await under.begun.catch(() => null); // `start` has told the error
    if (!end) return null;
    const text = joined(under.before, await end());
    setOn(false);
    onText(text);
    return text;
  };
  return { on, start, stop };
}
