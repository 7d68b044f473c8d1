// Server-sent events of a fetched answer (HTML standard, section 9.2): EventSource could not send the key.

/** Calls `onEvent(value, name)` for each event; `value` is its JSON, or the text where it is no JSON. */
export async function readEvents(response, onEvent) {
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
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
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
