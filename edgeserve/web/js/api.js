// Requests to the server that this page came from. Every failure is an Error with the server's own words.

import { apiKey } from "./settings.js";

const BASE = new URL(".", document.baseURI);
const LONGEST_PAUSE = 15_000;

export class ApiError extends Error {
  /** `status`: of HTTP; 0 where no answer came. */
  constructor(message, status, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let onLocked = () => {};

/** `listener`: called when the server asks for a key. */
export function whenLocked(listener) {
  onLocked = listener;
}

export function address(path) {
  return new URL(path.replace(/^\//, ""), BASE);
}

/** The Response of a success. Raises ApiError; an abort raises the browser's AbortError. */
export async function request(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (apiKey()) headers.Authorization = `Bearer ${apiKey()}`;
  const isForm = body instanceof FormData;
  if (body !== undefined && !isForm) headers["Content-Type"] = "application/json";
  const sent = body === undefined || isForm ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(address(path), { method, headers, body: sent, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(`the server does not answer (${error.message})`, 0, "unreachable");
  }
  if (response.ok) return response;
  throw await refusal(response);
}

async function refusal(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // a proxy's page, or a connection cut in the middle: the status says what is known
  }
  const message = (typeof error === "string" ? error : error.message) || `HTTP ${response.status}`;
  if (response.status === 401) onLocked();
  return new ApiError(message, response.status, error.code ?? "");
}

async function json(path, options) {
  const response = await request(path, options);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** Reads the events of one answer until it ends. `options` as in `request`. */
async function events(path, options, onEvent) {
  await readEvents(await request(path, options), onEvent);
}

/**
 * Follows a feed of events until the returned function is called, and connects again when the line is lost.
 * `onState`: "open", "lost" (it will try again), or an ApiError: the server refused, and nothing more comes.
 */
function stream(path, onEvent, onState = () => {}) {
  const stopping = new AbortController();
  const { signal } = stopping;
  const follow = async () => {
    let pause = 1000;
    while (!signal.aborted) {
      try {
        const response = await request(path, { signal });
        onState("open");
        pause = 1000;
        await readEvents(response, onEvent);
      } catch (error) {
        if (signal.aborted) return;
        if (error.status >= 400 && error.status < 500) return void onState(error);
      }
      if (signal.aborted) return;
      onState("lost");
      await rest(pause, signal);
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  };
  follow();
  return () => stopping.abort();
}

function rest(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/**
 * Calls `onEvent(value, name)` for each server-sent event of an answer (HTML standard, section 9.2).
 * `value` is its JSON, or the text where it is no JSON. EventSource could not send the key.
 */
async function readEvents(response, onEvent) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value.replaceAll("\r\n", "\n");
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) dispatch(block, onEvent);
  }
}

function dispatch(block, onEvent) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)/s.exec(line);
    if (field === "event") name = value;
    else if (field === "data") data.push(value);
  }
  if (data.length) onEvent(parsed(data.join("\n")), name);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text; // such as [DONE]
  }
}

/** A WebSocket. A browser cannot send the key in a header, and offers it as a sub-protocol. */
export function socket(path, protocol) {
  const url = address(path);
  url.protocol = url.protocol.replace("http", "ws");
  // The name of a sub-protocol takes neither "/" nor "=" nor brackets.
  const key = encodeURIComponent(apiKey()).replace(/[()]/g, escape);
  return new WebSocket(url, key ? [protocol, `openai-insecure-api-key.${key}`] : [protocol]);
}

export const api = {
  get: json,
  post: (path, body, options) => json(path, { method: "POST", body, ...options }),
  delete: (path, options) => json(path, { method: "DELETE", ...options }),
  stream,
  events,
};
