// Dictation into a field: its words stand behind the text that was there.

import { useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { joined, listen } from "./live.js";

/** `{on, start(text), stop()}`. `stop` gives the whole text; null where nothing was listening. */
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
