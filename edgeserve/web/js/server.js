// The state of the server: whether it answers, and the models that it serves.

import { useCallback, useEffect, useState } from "../vendor/preact-htm.module.js";
import { api, whenLocked } from "./api.js";

const RETRY = 3000;

/** `{state, models, voices, refresh}`; `state`: "starting", "ok", "lost", or "locked" until the right key is given. */
export function useServer(key) {
  const [server, setServer] = useState({ state: "starting", models: [], voices: [] });
  const refresh = useCallback(async () => {
    try {
      setServer(await read());
    } catch (error) {
      const state = error.status === 401 ? "locked" : "lost";
      setServer((before) => ({ ...before, state, message: error.message }));
    }
  }, []);
  useEffect(() => void refresh(), [key]);
  useEffect(() => {
    whenLocked(() => setServer((before) => ({ ...before, state: "locked" })));
    addEventListener("focus", refresh);
    return () => removeEventListener("focus", refresh);
  }, []);
  useEffect(() => {
    if (server.state !== "lost") return undefined;
    const timer = setInterval(refresh, RETRY);
    return () => clearInterval(timer);
  }, [server.state]);
  return { ...server, refresh };
}

async function read() {
  const { models } = await api.get("/v1/models");
  const speaks = models.some((one) => one.type === "tts");
  const { voices } = speaks ? await api.get("/v1/tts/voices") : { voices: [] };
  return { state: "ok", models, voices };
}

/** Names of the models that do one of the jobs, the default first. */
export function namesOf(models, ...jobs) {
  const found = models.filter((one) => jobs.includes(one.type));
  found.sort((one, other) => Number(other.default) - Number(one.default));
  return [...new Set(found.map((one) => one.name))];
}
