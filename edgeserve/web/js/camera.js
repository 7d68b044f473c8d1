// A dialogue with the camera's picture, and a button that takes one.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "./icons.js";
import { mediaStream } from "./microphone.js";
import { snapshot } from "./pictures.js";

export function Camera({ t, onPicture, onClose }) {
  const dialog = useRef(null);
  const video = useRef(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let stream = null;
    let closed = false;
    dialog.current.showModal();
    mediaStream({ video: { facingMode: "environment" } }, t)
      .then(async (opened) => {
        stream = opened;
        if (closed) return stop(stream);
        video.current.srcObject = stream;
        return video.current.play();
      })
      .catch((failure) => closed || setError(failure.message));
    return () => {
      closed = true;
      stop(stream);
    };
  }, []);
  const take = () => {
    onPicture(snapshot(video.current));
    onClose();
  };
  return html`<dialog class="camera" ref=${dialog} aria-label=${t("chat.camera")} onClose=${onClose}>
    ${error ? html`<p class="error" role="alert">${error}</p>` : html`<video ref=${video} playsinline muted />`}
    <div class="row">
      <button type="button" class="button primary" disabled=${Boolean(error)} onClick=${take}><${Icon} name="camera" />${t("chat.take")}</button>
      <button type="button" class="button" onClick=${onClose}>${t("chat.cancel")}</button>
    </div>
  </dialog>`;
}

function stop(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
