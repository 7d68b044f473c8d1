// The microphone as samples of a wanted rate. Browsers give it and the camera to safe pages alone.

const WANTED = { audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 } };

/** A stream of the device. Raises an Error whose message tells the user what to do. */
export async function mediaStream(wanted, t) {
  if (!navigator.mediaDevices?.getUserMedia) throw new Error(t("media.insecure"));
  try {
    return await navigator.mediaDevices.getUserMedia(wanted);
  } catch (error) {
    throw new Error(t(error.name === "NotAllowedError" ? "media.denied" : "media.missing"));
  }
}

/**
 * Opens the microphone. `onSamples(Float32Array, loudness)`: 50 ms, and its loudness from 0 to 1.
 * Returns a function that closes it. Raises an Error whose message tells the user what to do.
 */
export async function openMicrophone(rate, t, onSamples) {
  const stream = await mediaStream(WANTED, t);
  const context = makeContext(rate);
  const close = () => {
    for (const track of stream.getTracks()) track.stop();
    if (context.state !== "closed") context.close();
  };
  try {
    await context.audioWorklet.addModule(new URL("recorder.worklet.js", import.meta.url));
    const source = context.createMediaStreamSource(stream);
    const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0, processorOptions: { rate } });
    recorder.port.onmessage = ({ data }) => onSamples(data, loudness(data));
    source.connect(recorder);
    await context.resume();
  } catch (error) {
    close();
    throw error;
  }
  return close;
}

/** A context at the wanted rate where the browser resamples microphones (Firefox does not), else at its own. */
function makeContext(rate) {
  return navigator.userAgent.includes("Firefox/") ? new AudioContext() : new AudioContext({ sampleRate: rate });
}

function loudness(samples) {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  const decibels = 10 * Math.log10(sum / samples.length + 1e-9);
  return Math.max(0, Math.min(1, (decibels + 60) / 50));
}
