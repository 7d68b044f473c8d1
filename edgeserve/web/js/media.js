// The camera and the microphone, which browsers give to safe pages alone.

/** A stream of the device. Raises an Error whose message tells the user what to do. */
export async function mediaStream(wanted, t) {
  if (!navigator.mediaDevices?.getUserMedia) throw new Error(t("media.insecure"));
  try {
    return await navigator.mediaDevices.getUserMedia(wanted);
  } catch (error) {
    throw new Error(t(error.name === "NotAllowedError" ? "media.denied" : "media.missing"));
  }
}
