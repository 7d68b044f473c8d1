// One answer of a chat model, as it comes.

import { api } from "./api.js";

/** `settings.keepAlive` as the API takes it: a number of seconds, or a text such as "5m"; undefined: as configured. */
export function keepAlive(settings) {
  if (!settings.keepAlive) return undefined;
  const seconds = Number(settings.keepAlive);
  return Number.isNaN(seconds) ? settings.keepAlive : seconds;
}

function sent(message) {
  const { role, content, pictures = [] } = message;
  if (!pictures.length) return { role, content };
  const parts = pictures.map((url) => ({ type: "image_url", image_url: { url } }));
  return { role, content: content ? [...parts, { type: "text", text: content }] : parts };
}

/** Messages with content; a question that got no answer is left out, or its faults would fail each later one. */
function told(messages) {
  const answered = (number) => number === messages.length - 1 || messages[number + 1].content;
  return messages.filter((one, number) => (one.role === "user" ? answered(number) : one.content));
}

function body(conversation, settings) {
  const system = conversation.system.trim();
  const past = told(conversation.messages).map(sent);
  return {
    model: settings.model || undefined,
    messages: system ? [{ role: "system", content: system }, ...past] : past,
    temperature: settings.temperature === "" ? undefined : Number(settings.temperature),
    keep_alive: keepAlive(settings),
    stream: true,
    stream_options: { include_usage: true },
    timings_per_token: true,
  };
}

/**
 * Asks for the next message. `onPart({content, reasoning, stats})` is called with all that came so far.
 * Raises ApiError, also where the answer breaks off; an abort raises AbortError.
 */
export async function complete(conversation, settings, signal, onPart) {
  const answer = { content: "", reasoning: "", stats: null };
  const begun = performance.now();
  let first = 0;
  let ended = false;
  await api.events("/v1/chat/completions", { method: "POST", body: body(conversation, settings), signal }, (event) => {
    if (event === "[DONE]") return;
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices?.[0];
    const { content = "", reasoning_content: reasoning = "" } = choice?.delta ?? {};
    if ((content || reasoning) && !first) first = performance.now();
    answer.content += content ?? "";
    answer.reasoning += reasoning ?? "";
    if (choice?.finish_reason) ended = true;
    if (choice?.finish_reason === "length") answer.cut = true;
    if (event.timings) answer.stats = figures(event.timings, first - begun);
    onPart({ ...answer });
  });
  if (!ended) throw new Error("the connection was lost before the answer ended");
}

function figures(timings, firstAfter) {
  return { tokens: timings.predicted_n, speed: timings.predicted_per_second, first: firstAfter / 1000 };
}
