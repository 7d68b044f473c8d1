// Pictures for a question: read, scaled down, and as data URLs.

import { html } from "../vendor/preact-htm.module.js";
import { size } from "./i18n.js";
import { Icon } from "./icons.js";

const LONGEST_SIDE = 1024;
const QUALITY = 0.85;
const MOST_MB = 8;
const NAMES = /\.(heic|heif|avif)$/i;

/**
 * A JPEG as a data URL, at most 1024 pixels long. A file that the browser cannot decode, such as a telephone's HEIC
 * photo, stays as it is: the server may read it. Raises an Error with a text for the user.
 */
export async function readPicture(file, t) {
  let picture;
  try {
    picture = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    return asItIs(file, t);
  }
  return drawn(picture, picture.width, picture.height);
}

async function asItIs(file, t) {
  const values = { name: file.name, size: size(Math.ceil(file.size / 2 ** 20), t), most: size(MOST_MB, t) };
  if (file.size > MOST_MB * 2 ** 20) throw new Error(t("chat.large", values));
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(t("chat.unread", values)));
    reader.readAsDataURL(new Blob([file])); // without its type, so that nothing tries to show it
  });
}

/** A picture of a question. One that the browser cannot decode is shown as an icon. */
export function Picture({ url, label }) {
  if (url.startsWith("data:image/")) return html`<img src=${url} alt=${label} />`;
  return html`<span class="unshown" role=${label ? "img" : null} aria-label=${label || null}><${Icon} name="picture" /></span>`;
}

function drawn(source, width, height) {
  const scale = Math.min(1, LONGEST_SIDE / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff"; // JPEG has no transparency
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(source, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", QUALITY);
}

/** The picture that a running `<video>` shows. */
export function snapshot(video) {
  return drawn(video, video.videoWidth, video.videoHeight);
}

/** Files of pictures in a paste or a drop. */
export function pictureFiles(transfer) {
  return [...(transfer?.files ?? [])].filter((one) => one.type.startsWith("image/") || NAMES.test(one.name));
}
