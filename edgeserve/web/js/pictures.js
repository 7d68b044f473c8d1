// Pictures for a question: read, scaled down, and as data URLs.

const LONGEST_SIDE = 1024;
const QUALITY = 0.85;

/** A JPEG as a data URL, at most 1024 pixels long. Raises an Error for a file that is no picture. */
export async function scaled(file) {
  let picture;
  try {
    picture = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new Error(file.name || "picture");
  }
  return drawn(picture, picture.width, picture.height);
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
  return [...(transfer?.files ?? [])].filter((one) => one.type.startsWith("image/"));
}
