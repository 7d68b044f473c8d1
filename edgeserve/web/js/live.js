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
  let ended = () => {};
  const close = await openMicrophone(RATE, t, (samples, loudness) => {
    on.level?.(loudness);
    if (line.readyState === WebSocket.OPEN) line.send(samples);
  }).catch((error) => (line.close(), Promise.reject(error)));
  line.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.type === "error") return void on.error(message.error?.message ?? t("live.lost"));
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
  useEffect(() => () => void session.current?.stop(), []);
  const start = async (before) => {
    setOn(true);
    onError("");
    try {
      const stop = await listen(t, "", {
        text: (certain, partial) => onText(joined(before, joined(certain, partial))),
        error: onError,
        closed: () => ((session.current = null), setOn(false)),
      });
      session.current = { stop, before };
    } catch (error) {
      setOn(false);
      onError(error.message);
    }
  };
  const stop = async () => {
    const under = session.current;
    if (!under) return null;
    session.current = null;
    const text = joined(under.before, await under.stop());
    setOn(false);
    onText(text);
    return text;
  };
  return { on, start, stop };
}
