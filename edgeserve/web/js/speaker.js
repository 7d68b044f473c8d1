// Reads answers aloud while their sound is made.

import { useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { request } from "./api.js";
import { keepAlive } from "./completion.js";
import { Player } from "./player.js";

/** `{id, error, say(id, text), toggle(id, text), stop()}`; `id`: of the text that is read, or null. */
export function useSpeaker(settings) {
  const [id, setId] = useState(null);
  const [error, setError] = useState("");
  const under = useRef({ player: null, abort: null });
  const stop = () => {
    under.current.abort?.abort();
    under.current.player?.stop();
    setId(null);
  };
  useEffect(() => () => (stop(), under.current.player?.close()), []);
  const say = async (wanted, text) => {
    stop();
    setError("");
    const abort = new AbortController();
    const player = (under.current.player ??= new Player());
    under.current.abort = abort;
    player.onIdle = () => setId((now) => (now === wanted ? null : now));
    setId(wanted);
    try {
      const { spoken } = await import("./markdown.js");
      await play(player, spoken(text), settings, abort.signal);
    } catch (failure) {
      if (failure.name === "AbortError") return;
      setError(failure.message);
      setId(null);
    }
  };
  return { id, error, say, stop, toggle: (wanted, text) => (id === wanted ? stop() : say(wanted, text)) };
}

async function play(player, input, settings, signal) {
  if (!input) return void player.end();
  const body = { input, voice: settings.voice || undefined, response_format: "pcm", keep_alive: keepAlive(settings) };
  const response = await request("/v1/audio/speech", { method: "POST", body, signal });
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (signal.aborted) return;
    if (done) return void player.end();
    player.push(value);
  }
}
