// The field for a question: text, pictures, and the microphone.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Camera } from "./camera.js";
import { Icon, IconButton } from "./icons.js";
import { useDictation } from "./live.js";
import { Picture, pictureFiles, readPicture } from "./pictures.js";

const MOST_PICTURES = 4;

function usePictures(t, setError) {
  const [pictures, setPictures] = useState([]);
  const add = async (files) => {
    for (const file of files) {
      try {
        const url = await readPicture(file, t);
        setPictures((all) => [...all, url].slice(0, MOST_PICTURES));
      } catch (error) {
        setError(error.message);
      }
    }
  };
  return { pictures, setPictures, add };
}

/** `blind`: no model sees pictures. It is false while the server does not answer: it may have a model that does. */
export function Composer({ t, shown, running, sees, blind, hears, onSend, onStop }) {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [camera, setCamera] = useState(false);
  const [over, setOver] = useState(false);
  const area = useRef(null);
  const files = useRef(null);
  const { pictures, setPictures, add } = usePictures(t, setError);
  const dictation = useDictation(t, setError, setText);
  useEffect(() => {
    if (!shown) dictation.stop(); // no microphone behind another panel
  }, [shown]);
  useLayoutEffect(() => {
    area.current.style.height = "auto";
    area.current.style.height = `${Math.min(area.current.scrollHeight + 2, 220)}px`;
  }, [text]);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) area.current.focus({ preventScroll: true }); // no keyboard over a telephone
  }, []);

  const send = async () => {
    const last = await dictation.stop();
    const question = (last ?? text).trim();
    if (running || (!question && !pictures.length)) return;
    onSend(question, pictures);
    setText("");
    setPictures([]);
    setError("");
  };
  const onKey = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  const take = (event, transfer) => {
    const found = pictureFiles(transfer);
    setOver(false);
    const [other] = transfer.files;
    if (!other) return; // text
    if (!found.length && event.type === "paste") return; // text that brings files along
    event.preventDefault(); // else the browser may leave the page for the file
    if (!found.length) setError(t("chat.nofile", { name: other.name }));
    else if (blind) setError(t("chat.blind"));
    else add(found);
  };
  const dragging = (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  return html`<form class=${`composer ${over ? "over" : ""}`} onSubmit=${(event) => (event.preventDefault(), send())}
    onDragOver=${dragging} onDragLeave=${() => setOver(false)} onDrop=${(event) => take(event, event.dataTransfer)}>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${pictures.length > 0 &&
    html`<div class="row thumbs">
      ${pictures.map((url, number) => {
        const label = t("chat.unpicture", { number: number + 1 });
        const remove = () => setPictures(pictures.filter((_, other) => other !== number));
        return html`<button key=${url} type="button" class="thumb" aria-label=${label} title=${label} onClick=${remove}><${Picture} url=${url} label="" /></button>`;
      })}
    </div>`}
    <textarea ref=${area} rows="1" aria-label=${t("chat.question")} placeholder=${t(dictation.on ? "chat.listening" : "chat.question")}
      value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${onKey} onPaste=${(event) => take(event, event.clipboardData)} />
    <div class="row">
      ${sees &&
      html`<input ref=${files} type="file" accept="image/*,.heic,.heif,.avif" multiple hidden onChange=${(event) => (add(event.target.files), (event.target.value = ""))} />
        <${IconButton} icon="picture" label=${t("chat.attach")} onClick=${() => files.current.click()} />
        <${IconButton} icon="camera" label=${t("chat.camera")} onClick=${() => setCamera(true)} />`}
      ${hears &&
      html`<${IconButton} icon="microphone" label=${t(dictation.on ? "chat.undictate" : "chat.dictate")} aria-pressed=${dictation.on}
        onClick=${() => (dictation.on ? dictation.stop() : dictation.start(text))} />`}
      <span class="spread" />
      ${running
        ? html`<${IconButton} icon="stop" class="primary" label=${t("chat.stop")} onClick=${onStop} />`
        : html`<button class="icon-button primary" aria-label=${t("chat.send")} title=${t("chat.send")} disabled=${!text.trim() && !pictures.length}><${Icon} name="send" /></button>`}
    </div>
    ${camera && html`<${Camera} t=${t} onPicture=${(url) => setPictures((all) => [...all, url].slice(0, MOST_PICTURES))} onClose=${() => setCamera(false)} />`}
  </form>`;
}
